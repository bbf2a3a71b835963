//go:build !race

package main

// raceFlag builds the command as the tests are built.
const raceFlag = "-race=false"
