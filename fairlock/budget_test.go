//go:build !race

package fairlock_test

// waiterBudget is how many bytes a waiter may cost at most: with its stack, its caller's goroutine
// and its part of what all have together, which are mostly the buffers of twenty connections. 2.2 KiB on the heap were measured, and
// 2.6 KiB of stack: three of four waiters have a stack of 2 KiB, the others one of 4. On a busy machine half of them have 4, for more of
// them meet a mutex or a collection. One more frame makes 4 KiB of it for all of them, which this is to show.
const waiterBudget = uint64(5632)
