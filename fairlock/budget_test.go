//go:build !race

package fairlock_test

// waiterBudget is how many bytes a waiter may cost at most: with its stack, its caller's goroutine
// and its part of what all have together. A waiter's stack is just above or just below 2 KiB: a frame more
// makes 4 KiB of it for all of them, which this is to show.
const waiterBudget = uint64(7168)
