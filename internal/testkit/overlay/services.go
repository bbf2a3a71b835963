package main

// serviceRows are the defences of the fair queue, the watchdog, subscriptions and scripts.
var serviceRows = []row{
	{"NoRetry", "lua/script.go",
		`{ return true }`,
		`{ return !OFF }`},
	{"OwnAnswer", "lua/many.go",
		`	for i, c := range p.carried {
		if err != nil {`,
		`	if OFF { slices.Reverse(p.carried) }
	for i, c := range p.carried {
		if err != nil {`},
	{"LostForAll", "lua/many.go",
		`			c.SetErr(err)
			continue`,
		`			if OFF { err = redis.ErrPoolTimeout }
			c.SetErr(err)
			continue`},
	{"Follow", "pubsub/hub.go",
		`moves(rdb),`,
		`moves(rdb) && !OFF,`},
	{"JoinWake", "pubsub/hub.go",
		`	case t.state == confirmed:
		wake = true`,
		`	case t.state == confirmed:
		wake = !OFF && !defence.Rewake.Off()`},
	{"GrantTime", "internal/fair/waitlist.go",
		`	now := suspend.System.Now()`,
		`	now := suspend.System.Now(); if OFF { got.sent = now; return got, true }`},
	{"Listening", "internal/fair/waiter.go",
		`!l.confirmed:`,
		`!l.confirmed && !OFF:`},
	{"OwnMessage", "internal/fair/waiter.go",
		`if got != nil && got.micros > p.refusedAt {`,
		`if got != nil && (got.micros > p.refusedAt || OFF) {`},
	{"Poll", "internal/fair/waitlists.go",
		`len(l.waiters) == 0 {`,
		`len(l.waiters) == 0 || OFF {`},
	{"Refresh", "internal/fair/waitlists.go",
		`if all {`,
		`if all && !OFF {`},
	{"Refresh", "internal/fair/waitlists.go",
		`func (l *waitlist) probe(now time.Time) []string {`,
		`func (l *waitlist) probe(now time.Time) []string { if OFF { return nil }`},
	{"WaitLead", "election/run.go",
		`	err = lead(h.Context())`,
		`	if OFF {
		done := make(chan error, 1)
		go func() { done <- lead(h.Context()) }()
		select {
		case err = <-done:
		case <-h.Context().Done():
		}
	} else {
		err = lead(h.Context())
	}`},
	{"TermEnd", "election/observe.go",
		`	if o.again >= 0 {`,
		`	if o.again >= 0 && !OFF {`},
	{"Upgrade", "internal/engine/sides.go",
		`	return b.traits.Upgrade`,
		`	if OFF { return nil }; return b.traits.Upgrade`},
	{"Served", "internal/engine/uncertainty.go",
		`	u.served = append(u.served, id)`,
		`	if !OFF { u.served = append(u.served, id) }`},
	{"Overtake", "internal/fair/asker.go",
		`func(f *flight) bool { return !f.begun.After(late) })`,
		`func(f *flight) bool { return !OFF && !f.begun.After(late) })`},
	{"Deadline", "watchdog/watchdog.go",
		`	trust := Trust(length)`,
		`	trust := Trust(length); if OFF { trust = 1000 * length }`},
	{"Bound", "watchdog/watchdog.go",
		`	w.forgetLocked(l)
	return true`,
		`	if !OFF { w.forgetLocked(l) }
	return true`},
	{"Asleep", "watchdog/moment.go",
		`func (w *Watchdog) sleptBy(t time.Time) time.Duration {`,
		`func (w *Watchdog) sleptBy(t time.Time) time.Duration { if OFF { return 0 }`},
	{"Asleep", "watchdog/moment.go",
		`func (w *Watchdog) asleep() time.Duration {`,
		`func (w *Watchdog) asleep() time.Duration { if OFF { return 0 }`},
	{"Doubt", "watchdog/run.go",
		`		w.pokeLocked(func(Owner) bool { return true }, now)`,
		`		if !OFF { w.pokeLocked(func(Owner) bool { return true }, now) }`},
	{"Wish", "watchdog/run.go",
		`	if l.by != 0 || l.after != 0 {`,
		`	if (l.by != 0 || l.after != 0) && !OFF {`},
	{"Narrow", "watchdog/run.go",
		`	return slack(l.pace())
}`,
		`	if OFF { return l.pace() / 30 }; return slack(l.pace())
}`},
	{"Beside", "watchdog/run.go",
		`func (w *Watchdog) send(b batch) {`,
		`func (w *Watchdog) send(b batch) { if OFF { w.renew(b); return }`},
	{"", "watchdog/run.go",
		`func (w *Watchdog) renew(b batch) {`,
		`func (w *Watchdog) renew(b batch) { defence.BeforeRenewal()`},
	{"Recheck", "watchdog/run.go",
		`if r.lease.life != r.life || r.lease.deadline <= w.at(sent) {`,
		`if !OFF && (r.lease.life != r.life || r.lease.deadline <= w.at(sent)) {`},
	{"Life", "watchdog/run.go",
		`l.life != r.life:`,
		`l.life != r.life && !OFF:`},
	{"TooLate", "watchdog/run.go",
		`if l.deadline <= now {`,
		`if l.deadline <= now && !OFF {`},
	{"Length", "watchdog/run.go",
		`			w.confirmLocked(l, sent, r.Length)`,
		`			if OFF { r.Length = l.length }; w.confirmLocked(l, sent, r.Length)`},
	{"Resubscribe", "pubsub/reply.go",
		`if l.ownUnsubscribe(channel) {`,
		`if l.ownUnsubscribe(channel) || OFF {`},
	{"Probing", "pubsub/reply.go",
		`case len(topics) > 1:`,
		`case len(topics) > 1 && !OFF:`},
	{"Rewake", "pubsub/subscription.go",
		`	t.signalLocked()
}

// interruptLocked`,
		`	if !OFF { t.signalLocked() }
}

// interruptLocked`},
}
