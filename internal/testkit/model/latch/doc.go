// Package latch is the model of a count-down latch: latch_set.lua, latch_count.lua, latch_delete.lua
// and latch_look.lua, and what package latch makes of them: calls that are repeated, and one look at
// the server for all of a client who wait. It consists of tests.
//
// Bounds: two clients call, one after another, and all that goes wrong with calls happens to both of them. A third has two
// waiters behind one gate, and its connection for messages breaks. Beside them there is an undisturbed client, whose calls are
// single steps, and a Redisson client. Few requests are late at a time. The fields of latching are the bounds.
//
// A latch may be set anew before a waiter has looked. It then waits for that one, as package latch says; so what is checked is
// that nobody sleeps while no latch is set, and that whoever is let in has seen a moment since it came in which none was.
//
// Left out: the hub's connections beyond one subscription that is made, breaks and is made anew; answers to looks that are on
// their way for longer than a tick; servers that lose keys, which is the same to waiters as a deletion of which nobody is told.
package latch
