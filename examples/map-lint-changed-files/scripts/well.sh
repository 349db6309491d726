echo well
