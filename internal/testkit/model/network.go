package model

import (
	"bytes"
	"iter"
	"unsafe"
)

// A network is an array of messages under way: each may arrive at any time, or never. The zero message is an empty place. The
// array is sorted, empty places last, so networks with the same messages are equal.

// Put adds a message to a network. It returns false if there is no room.
func Put[M comparable](net []M, m M) bool {
	var none M
	i := len(net) - 1
	if net[i] != none {
		return false
	}
	for ; i > 0 && (net[i-1] == none || Order(&m, &net[i-1]) < 0); i-- {
		net[i] = net[i-1]
	}
	net[i] = m
	return true
}

// Order compares two messages by their bytes, in the order of their fields: small structs of bytes, so without padding.
func Order[M comparable](a, b *M) int {
	return bytes.Compare(unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a)), //nolint:gosec // see above
		unsafe.Slice((*byte)(unsafe.Pointer(b)), unsafe.Sizeof(*b))) //nolint:gosec // likewise
}

// Take removes message i.
func Take[M any](net []M, i int) {
	var none M
	copy(net[i:], net[i+1:])
	net[len(net)-1] = none
}

// Under returns the messages that are under way.
func Under[M comparable](net []M) []M {
	var none M
	for i, m := range net {
		if m == none {
			return net[:i]
		}
	}
	return net
}

// Different yields each different message once, with its index. Which of several equal ones a step is about does not matter.
func Different[M comparable](net []M) iter.Seq2[int, M] {
	return func(yield func(int, M) bool) {
		for i, m := range Under(net) {
			if (i == 0 || m != net[i-1]) && !yield(i, m) {
				return
			}
		}
	}
}

// Change replaces each message, or removes it if change returns false.
func Change[M comparable](net []M, change func(M) (changed M, stays bool)) {
	var none M
	n := 0
	for _, m := range Under(net) {
		m, stays := change(m)
		if !stays {
			continue
		}
		i := n
		for ; i > 0 && Order(&m, &net[i-1]) < 0; i-- {
			net[i] = net[i-1]
		}
		net[i] = m
		n++
	}
	for ; n < len(net); n++ {
		net[n] = none
	}
}

// Extract removes the messages for which so is true, and returns them.
func Extract[M comparable](net []M, so func(M) bool) (out []M) {
	Change(net, func(m M) (M, bool) {
		is := so(m)
		if is {
			out = append(out, m)
		}
		return m, !is
	})
	return out
}

// Count returns the number of messages for which so is true.
func Count[M comparable](net []M, so func(M) bool) (n int) {
	for _, m := range Under(net) {
		if so(m) {
			n++
		}
	}
	return n
}

// Steps of an undo: a release, a pause that outlasts messages, and a release. Without a straggler the last is enough.
const (
	UndoFirst = iota + 1
	UndoPause
	UndoLast
)

// Aged is the step of an attempt that its client gave up a while ago, which an undo's last release comes after.
const Aged = 1

// Full says that the bounds have no room for what a step leaves behind. The step is not taken.
type Full bool

// Cut counts a message that was not put into a network, for there is no room.
func (f Full) Cut(put bool, count *int) {
	if !put && !bool(f) {
		*count++
	}
}

// Need is Cut of a message without which the step is not taken.
func (f *Full) Need(put bool, count *int) {
	f.Cut(put, count)
	*f = *f || Full(!put)
}

// Link is where a client's messages arrive.
type Link uint8

// The states of a link.
const (
	Off     Link = iota // nowhere
	On                  // at a connection of which the client does not know yet
	Heard               // at the client
	Severed             // nowhere, and the client does not know yet
)

// Up reports whether the server counts the client as a listener.
func (l Link) Up() bool { return l == On || l == Heard }

// Bit is 1 for true, to sort by a bool.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Models count time in ticks, the same for all clocks. A state holds how many ticks are left until something ends.

// Endless is the number of ticks left of something without an end.
const Endless = 255

// Less takes one tick off, and reports whether it was the last one. It leaves 0 and Endless as they are.
func Less(ticks *uint8) (last bool) {
	if *ticks == 0 || *ticks == Endless {
		return false
	}
	*ticks--
	return *ticks == 0
}

// Rebase makes numbers count from 1 where only their order and distance matter, as of tokens. It leaves 0 as it is.
func Rebase(numbers []*uint8) {
	least := uint8(Endless)
	for _, n := range numbers {
		if *n != 0 {
			least = min(least, *n)
		}
	}
	for _, n := range numbers {
		if *n != 0 {
			*n -= least - 1
		}
	}
}

// Spend takes one of what may still happen, and reports whether there was one left.
func Spend(left *uint8) bool {
	if *left == 0 {
		return false
	}
	*left--
	return true
}
