echo spaces  
