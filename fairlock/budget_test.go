//go:build !race

package fairlock_test

// waiterBudget is how many bytes a waiter may cost at most: with its stack, its caller's goroutine
// and its part of what all have together.
const waiterBudget = uint64(5632)
