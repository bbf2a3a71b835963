//go:build race

package rlock_test

// waiterBudget is how many bytes a waiter may cost at most, where the race detector makes frames larger: with its stack, of 4 KiB,
// and its caller's goroutine.
const waiterBudget = uint64(6912)
