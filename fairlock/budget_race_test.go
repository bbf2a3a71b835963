//go:build race

package fairlock_test

// waiterBudget is how many bytes a waiter may cost at most, where the race detector makes frames
// larger: with its stack, its caller's goroutine and its part of what all have together.
const waiterBudget = uint64(7680)
