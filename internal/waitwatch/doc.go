// Package waitwatch watches long waits for people. It reports waits for locks that the waiting client holds itself, and
// circles of waits over any number of processes (package deadlock). It also publishes the label by which people know a
// client.
//
// It changes no hold and no wait. It sees a grant through the small view [Grant], which the engine implements.
//
// Not promised: that a long wait is seen. At most some hundred waits of a client are checked, a check can fail, and a
// wait may have ended by the time it is reported.
package waitwatch
