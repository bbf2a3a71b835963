package inspect

// Matches reports whether a name matches a pattern as in [Query]: what Locks finds by it.
func Matches(pattern, name string) bool { return glob(pattern, name) }

// glob reports whether a name matches a pattern of Redis, as in KEYS. An empty pattern matches all.
// (Rejected: path.Match, for which a slash is special.)
func glob(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	// Where a star was, and what it stands for so far: the last one is the only one to go back to.
	star, behind := -1, 0
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, behind = p, n
				p++
				continue
			}
			if width, ok := one(pattern[p:], name[n]); ok {
				p += width
				n++
				continue
			}
		}
		if star < 0 {
			return false
		}
		behind++
		p, n = star+1, behind
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one reports whether a byte matches the beginning of a pattern that is no star, and how long that is.
func one(pattern string, c byte) (width int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	case '[':
		return class(pattern, c)
	}
	return 1, pattern[0] == c
}

// class is one of the bytes in brackets. Without a closing one the pattern ends there, as in Redis.
func class(pattern string, c byte) (width int, ok bool) {
	p := 1
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			ok = ok || pattern[p] == c
		case p+2 < len(pattern) && pattern[p+1] == '-':
			from, to := min(pattern[p], pattern[p+2]), max(pattern[p], pattern[p+2])
			ok = ok || from <= c && c <= to
			p += 2
		default:
			ok = ok || pattern[p] == c
		}
	}
	return min(p+1, len(pattern)), ok != not
}
