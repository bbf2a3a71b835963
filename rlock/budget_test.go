//go:build !race

package rlock_test

// waiterBudget is how many bytes a waiter may cost at most, with its stack and its caller's goroutine. Measured were 1.7 KiB on
// the heap and 2.4 KiB of stack: one of ten waiters has a stack of 4 KiB, and on a busy machine one of five. Some more
// frames make 4 KiB of it for all of them, which this is to show.
const waiterBudget = uint64(4864)
