echo base
