package model

import "iter"

// A network is an array of messages of which nobody knows whether they will arrive, in a state. The
// zero message is none. Messages stand in order, with the empty places behind them, so that two
// networks with the same messages under way are equal.

// Put adds a message to a network, in its place by order. False: there is no room.
func Put[M comparable](net []M, m M, order func(a, b M) int) bool {
	var none M
	i := len(net) - 1
	if net[i] != none {
		return false
	}
	for ; i > 0 && (net[i-1] == none || order(m, net[i-1]) < 0); i-- {
		net[i] = net[i-1]
	}
	net[i] = m
	return true
}

// Take removes the i-th message.
func Take[M any](net []M, i int) {
	var none M
	copy(net[i:], net[i+1:])
	net[len(net)-1] = none
}

// Under are the messages that are under way.
func Under[M comparable](net []M) []M {
	var none M
	for i, m := range net {
		if m == none {
			return net[:i]
		}
	}
	return net
}

// Different are those that differ, with their places: what becomes of one of several that are equal
// is the same.
func Different[M comparable](net []M) iter.Seq2[int, M] {
	return func(yield func(int, M) bool) {
		for i, m := range Under(net) {
			if (i == 0 || m != net[i-1]) && !yield(i, m) {
				return
			}
		}
	}
}

// Change puts another message in the place of each one, or none: of those that are lost, and of those
// that somebody else takes over.
func Change[M comparable](net []M, order func(a, b M) int, change func(M) (changed M, stays bool)) {
	var none M
	n := 0
	for _, m := range Under(net) {
		m, stays := change(m)
		if !stays {
			continue
		}
		i := n
		for ; i > 0 && order(m, net[i-1]) < 0; i-- {
			net[i] = net[i-1]
		}
		net[i] = m
		n++
	}
	for ; n < len(net); n++ {
		net[n] = none
	}
}

// Count is how many messages are so.
func Count[M comparable](net []M, so func(M) bool) (n int) {
	for _, m := range Under(net) {
		if so(m) {
			n++
		}
	}
	return n
}

// Bit orders by something that is so or not.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
