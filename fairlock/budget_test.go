//go:build !race

package fairlock_test

// waiterBudget is how many bytes a waiter may cost at most: with its stack, its caller's goroutine
// and its part of what all have together, which is mostly the buffers of up to twenty connections. Measured were 2.2 KiB
// on the heap and 2.6 KiB of stack: three of four waiters have a stack of 2 KiB, the others one of 4. On a busy machine
// up to three quarters have 4, because more of them meet a mutex or a collection. Some more frames make 4 KiB of it for all
// of them, which this is to show.
const waiterBudget = uint64(5632)
