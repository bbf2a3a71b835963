package inspect

// Claim is for tests.
const Claim = claim

// Glob is for tests.
var Glob = glob

// First tells, of a set of that size, whether each name is told: those that were not lately.
func First(size int, names ...string) (told []bool) {
	s := newSeen(size)
	for _, name := range names {
		told = append(told, s.first(name, 0))
	}
	return told
}
