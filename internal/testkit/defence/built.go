package defence

// Built reports whether the program was built with the overlay, which replaces this file.
const Built = false
