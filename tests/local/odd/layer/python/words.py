WORD = "of a layer"
