//go:build race

package fairlock_test

// waiterBudget is how many bytes a waiter may cost at most, where the race detector makes frames
// larger: with its stack, its caller's goroutine and its part of what all have together. 6.2 KiB were measured: all have a stack of
// 4 KiB.
const waiterBudget = uint64(6912)
