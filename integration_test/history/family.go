package history

import "slices"

// ofFamily are the operations of one kind of lock, with what concerns all of them.
func ofFamily(ops []Op, f Family) (list []Op) {
	for _, o := range ops {
		if o.Of == f || o.Name == "" {
			list = append(list, o)
		}
	}
	return list
}

// checkFamilies makes the checks of the kinds that have models of their own.
func checkFamilies(ops []Op, c Config) (found []Violation) {
	for _, f := range []struct {
		of     Family
		checks []func([]Op, Config) []Violation
	}{
		{ReadWrite, []func([]Op, Config) []Violation{exclusive, writeTokens, readTokens, linearReadWrite, Turns, upgrades, readWriteWakeUps}},
		{Permits, []func([]Op, Config) []Violation{MostPermits, permitTokens, linearPermits, Fifo, permitWakeUps, Free}},
		{Latches, []func([]Op, Config) []Violation{linearLatch, Sleepers}},
		{Elections, []func([]Op, Config) []Violation{exclusion, tokens, Linearizable, Fifo, wakeUps, Observers, Leaders}},
	} {
		own := ofFamily(ops, f.of)
		if !slices.ContainsFunc(own, func(o Op) bool { return o.Of == f.of }) {
			continue
		}
		if f.of == Elections {
			own = lateNews(own, c.Pauses)
		}
		for _, check := range f.checks {
			found = append(found, check(own, c)...)
		}
		if f.of == Latches {
			continue
		}
		found = append(found, Leases(own, c.Claim)...)
		if c.Slack > 0 {
			found = append(found, Trust(own, c.Slack, c.Pauses, c.Lapses)...)
		}
		if c.Least > 0 {
			found = append(found, GivenUp(own, c.Least, c.Refusals)...)
		}
	}
	return found
}

func exclusion(ops []Op, _ Config) []Violation { return Exclusion(ops) }
func tokens(ops []Op, _ Config) []Violation    { return Tokens(ops) }

func wakeUps(ops []Op, c Config) []Violation {
	if c.Bound == 0 {
		return nil
	}
	return WakeUps(ops, c)
}
