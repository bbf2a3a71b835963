package model

// Models count time in ticks, the same for all clocks. A state holds how many ticks are left until
// something ends.

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
