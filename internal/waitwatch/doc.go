// Package waitwatch watches long waits for people: it reports waits for what the waiting client holds itself, and
// circles of waits over any number of processes (package deadlock), and it publishes the label by which people know
// a client.
//
// It changes no hold and no wait. It sees a grant through the small view [Grant], which the engine implements.
//
// Not promised: that a long wait is seen. At most some hundred waits of a client are looked at, a look can fail, and
// what is looked at may have ended by the time it is told.
package waitwatch
