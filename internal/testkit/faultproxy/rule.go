package faultproxy

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"
)

// Action is what a rule does to the request that fires it.
type Action int

// The actions.
const (
	// DropReply lets the server run the request, swallows the reply and then closes the connection:
	// a lost reply.
	DropReply Action = iota + 1
	// DropRequest never forwards the request and closes the connection when all replies still due
	// have been passed on: a lost request.
	DropRequest
	// Cut closes the connection at once, before forwarding; replies still due may be lost.
	Cut
	// HoldReply lets the server run the request and holds the reply, and all later ones of the
	// connection, until [Rule.Release].
	HoldReply
	// BlackHole swallows the request and everything after it on the connection, which stays open
	// without a word.
	BlackHole

	// Those with a duration have methods of their own.
	delayRequest
	delayReply
	keepRequest
)

// String names the action.
func (a Action) String() string {
	names := [...]string{
		"none", "DropReply", "DropRequest", "Cut", "HoldReply", "BlackHole", "DelayRequest", "DelayReply",
		"KeepRequest",
	}
	if int(a) < len(names) {
		return names[a]
	}
	return "unknown"
}

// Rule is a fault that waits for its request.
type Rule struct {
	match  func(args []string) bool
	nth    int
	action Action
	delay  time.Duration

	mu      sync.Mutex
	seen    int
	count   int
	cleared bool
	fired   chan struct{} // closed by the first firing
	hold    chan struct{} // closed by Release
}

// Fired is closed when the rule has taken effect for the first time: for DropReply, HoldReply and
// DelayReply after the server has run the request, for the others when the request has been caught.
// A delay begins then.
func (r *Rule) Fired() <-chan struct{} { return r.fired }

// Count is how many requests the rule has caught. It is raised before the fault can be felt, so a
// client that has seen an error is counted.
func (r *Rule) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Release passes on what HoldReply or a delay holds now. A rule with nth 0 goes on holding later
// ones; any other, if it has not fired yet, holds nothing any more.
func (r *Rule) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release()
	if r.nth == 0 && !r.cleared {
		r.hold = make(chan struct{})
	}
}

// Clear ends the rule and releases what it holds. The request being handled may still be hit.
func (r *Rule) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleared = true
	r.release()
}

func (r *Rule) release() {
	select {
	case <-r.hold:
	default:
		close(r.hold)
	}
}

// hit sees a request and says whether it is the rule's. held is what its reply waits for.
func (r *Rule) hit(args []string) (hit bool, held <-chan struct{}) {
	if !r.match(args) {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	return !r.cleared && (r.nth == 0 || r.seen == r.nth), r.hold
}

func (r *Rule) caught() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
}

// done records that the rule has taken effect.
func (r *Rule) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.fired:
	default:
		close(r.fired)
	}
}

// Command matches requests by name, in any case.
func Command(names ...string) func(args []string) bool {
	return func(args []string) bool {
		return len(args) > 0 && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, args[0]) })
	}
}

// Script matches EVALSHA with this hash, and EVAL with the text that has it; not the read-only
// variants.
func Script(sha string) func(args []string) bool {
	return func(args []string) bool {
		switch {
		case len(args) < 2:
			return false
		case strings.EqualFold(args[0], "EVALSHA"):
			return strings.EqualFold(args[1], sha)
		case strings.EqualFold(args[0], "EVAL"):
			sum := sha1.Sum([]byte(args[1])) //nolint:gosec // Redis names scripts by their SHA-1
			return strings.EqualFold(hex.EncodeToString(sum[:]), sha)
		}
		return false
	}
}

// Arg matches requests whose i-th word is val. 0 is the command's name; for a script 1 is hash or
// text, 2 the number of keys, and the first key is 3.
func Arg(i int, val string) func(args []string) bool {
	return func(args []string) bool { return i < len(args) && args[i] == val }
}

// All matches requests that all the matchers match: All(Script(sha), Arg(3, "orders")).
func All(matchers ...func(args []string) bool) func(args []string) bool {
	return func(args []string) bool {
		return !slices.ContainsFunc(matchers, func(m func([]string) bool) bool { return !m(args) })
	}
}

// Any matches every request. On a connection of go-redis the first is HELLO.
func Any(args []string) bool { return true }
