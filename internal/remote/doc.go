// Package remote is one Redis, as those see it who lock there: each command is executed at most
// once, and what came of it is known or known to be uncertain. What may have been granted to
// somebody who has left is given back.
//
// It knows nothing of owners that wait, of holds and of leases; package engine does.
package remote
