// Package examples stands above programs that are made to be copied, one in each folder. Its tests build
// them, run them as processes against a real Redis, and check what they print.
//
// Each program finds Redis by the environment variable REDIS (default 127.0.0.1:6379), and ends with
// Ctrl-C. Not promised: that their names and output stay.
package examples
