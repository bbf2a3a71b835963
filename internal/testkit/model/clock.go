package model

// Time goes in ticks, for all clocks alike, and what is left of a time is a number of them.

// Endless is a time that does not end.
const Endless = 255

// Less takes a tick off, and reports whether that was the last one. Of 0 and of Endless it takes
// nothing.
func Less(ticks *uint8) (last bool) {
	if *ticks == 0 || *ticks == Endless {
		return false
	}
	*ticks--
	return *ticks == 0
}
