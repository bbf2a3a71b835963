package history

// Violation is a promise that a history shows broken.
type Violation struct {
	Check   string // "exclusion", "tokens", "linearizability", "wake-up", "fifo", ...
	Name    string // of the lock
	Text    string
	Ops     []Op   // those that contradict each other, or all of the name
	Picture []byte // of linearizability: an HTML page
}

// Exclusion finds owners that trusted their holds of one name at the same moment, but for readers, and an owner that
// reads and writes itself.
func Exclusion(ops []Op, _ Config) (found []Violation) {
	for name, ops := range byName(ops) {
		all := tenures(ops, 0) // by return
		for i := range all {
			t := &all[i]
			for j := range all[:i] {
				other := &all[j]
				together := t.op.Shared && other.op.Shared || t.op.Of == ReadWrite && t.op.Owner == other.op.Owner
				if to := min(t.until, other.until); to > t.op.Return && !together {
					found = append(found, Violation{"exclusion", name, "two holders for " + span(t.op.Return, to),
						[]Op{other.op, t.op}, nil})
				}
			}
		}
	}
	return found
}

// Tokens finds grants with equal tokens, and grants with smaller ones than a grant that had
// returned before they were asked for.
func Tokens(ops []Op, _ Config) (found []Violation) {
	for name, ops := range byName(ops) {
		seen := make(map[uint64]Op)
		var grants []Op // by return
		for _, t := range tenures(ops, 0) {
			if t.op.tokenless() {
				continue
			}
			if other, twice := seen[t.op.Token]; twice {
				found = append(found, Violation{"tokens", name, "granted twice", []Op{other, t.op}, nil})
			}
			seen[t.op.Token] = t.op
			grants = append(grants, t.op)
		}
		greatest, next := Op{}, 0 // of grants[:next]
		for _, o := range ops {   // by call
			if !o.granted() || o.tokenless() {
				continue
			}
			for ; next < len(grants) && grants[next].Return < o.Call; next++ {
				if grants[next].Token > greatest.Token {
					greatest = grants[next]
				}
			}
			if greatest.Token >= o.Token {
				found = append(found, Violation{"tokens", name, "a later grant has a smaller token", []Op{greatest, o},
					nil})
			}
		}
	}
	return found
}
