package watchdog

import (
	"context"
	"slices"
	"time"
)

// run keeps the time: it sleeps until the next moment, calls Lost for lost leases, and starts the
// renewals that are due.
func (w *Watchdog) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.poke:
		case <-timer.C:
		}
		for {
			lost, batches, more := w.due(timer)
			for _, l := range lost {
				l.owner.Lost(l.reason)
			}
			for _, b := range batches {
				w.send(b)
			}
			if !more {
				break
			}
		}
	}
}

// loss is a call of Lost that must be made.
type loss struct {
	owner  Owner
	reason error
}

// due returns the work that is due now: deadlines first, then a batch of renewals for each lane. It
// never returns more than a batch in all, so that the mutex is not held for long when 100 000
// leases are due; more says that there may be others. If nothing is due, it sets the timer for the
// next moment.
func (w *Watchdog) due(timer *time.Timer) (lost []loss, batches []batch, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slept = w.asleep()
	now := w.now()
	if doubts := w.clock.Doubts(); doubts != w.doubts {
		w.doubts = doubts
		w.pokeLocked(func(Owner) bool { return true }, now)
	}
	for w.ends.len() > 0 && w.ends.entries[0].at <= now {
		if len(lost) == w.cfg.MaxBatch {
			return lost, nil, true // only leases that are not lost are renewed, so all deadlines come first
		}
		l := w.ends.entries[0].l
		lost = append(lost, loss{l.owner, l.over()})
		w.forgetLocked(l)
	}
	batches, looked := w.batchesLocked(now)
	more = len(lost)+looked > 0
	if !more {
		w.sleepLocked(timer, now)
	}
	return lost, batches, more
}

// batchesLocked takes the leases that are due, together with those that are due soon. looked is how
// many were taken or parked.
func (w *Watchdog) batchesLocked(now time.Duration) (batches []batch, looked int) {
	for ; w.turns.len() > 0 && looked < w.cfg.MaxBatch; looked++ {
		first := w.turns.entries[0]
		l := first.l
		early := w.earlyLocked(l)
		if first.at > now && (len(batches) == 0 || first.at-now > early) {
			break
		}
		key := w.laneOf(l)
		i := slices.IndexFunc(batches, func(b batch) bool { return b.lane == key })
		switch {
		case i >= 0:
		case !w.lanes.full(key):
			w.lanes.take(key)
			i, batches = len(batches), append(batches, batch{lane: key})
		case first.at > now:
			return batches, looked
		default:
			w.park(key, l, first.at)
			continue
		}
		l.attempt++
		if l.by = 0; l.after <= now {
			l.after = 0
		}
		batches[i].renewals = append(batches[i].renewals,
			Renewal{Owner: l.owner, Length: l.length, lease: l, life: l.life, attempt: l.attempt})
		w.turns.put(l, now+overdue(l.pace())) // unless the verdict comes first
	}
	return batches, looked
}

// earlyLocked is how early the renewal of a lease may come.
func (w *Watchdog) earlyLocked(l *Lease) time.Duration {
	if l.by != 0 || l.after != 0 { // a renewal at a moment must not come before it
		return 0
	}
	return slack(l.pace())
}

func (w *Watchdog) laneOf(l *Lease) any {
	if w.cfg.Lane == nil {
		return nil
	}
	return w.cfg.Lane(l.owner)
}

// sleepLocked sets the timer for the next moment. When there is nothing to wait for, it keeps the
// moment that it last slept for. That costs one needless look, but spares the next lease a poke:
// otherwise a client that takes and releases one lock would poke every time that the goroutine
// happens to look in between.
func (w *Watchdog) sleepLocked(timer *time.Timer, now time.Duration) {
	next := forever
	if w.ends.len() > 0 {
		next = w.ends.entries[0].at
	}
	if w.turns.len() > 0 {
		next = min(next, w.turns.entries[0].at)
	}
	if next == forever && w.wake > now {
		next = w.wake
	}
	if next != forever { // whether there is something to wait for by now or not: that does not set the timer anew
		next = min(next, now+glance)
		timer.Reset(next - now)
	}
	w.wake = next
}

// send renews a batch in a goroutine of its own, so that a silent server does not stop the clock.
func (w *Watchdog) send(b batch) {
	w.group.Go(func() { w.renew(b) })
}

func (w *Watchdog) renew(b batch) {
	rest, sent := w.begin(b.renewals)
	if len(rest) > 0 {
		w.call(rest)
	}
	gone, judged, left := w.judge(b.lane, rest, sent)
	for _, o := range gone {
		o.Lost(ErrGone)
	}
	if len(judged) > 0 {
		w.cfg.Judged(judged, left)
	}
}

// begin drops leases that were forgotten or ran out since the batch was made, because this
// goroutine may have waited to be scheduled. It takes the send time before the call, because the
// server cannot renew earlier. It does all this with the mutex held. So a Forget comes either
// before begin, and the lease is not renewed, or after it.
func (w *Watchdog) begin(batch []Renewal) (rest []Renewal, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent = w.clock.Now()
	rest = batch[:0]
	for _, r := range batch {
		if r.lease.life != r.life || r.lease.deadline <= w.at(sent) {
			continue
		}
		if r.lease.life == r.life {
			r.Length = r.lease.length // it may have been extended meanwhile
		}
		r.pace = r.lease.pace()
		rest = append(rest, r)
	}
	return rest, sent
}

func (w *Watchdog) call(batch []Renewal) {
	longest := time.Duration(0)
	for _, r := range batch {
		longest = max(longest, r.pace)
	}
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(errReturned)
	ctx, stop := context.WithTimeoutCause(ctx, patience(longest), errPatience)
	defer stop()
	w.cfg.Renew(ctx, batch)
}

// judge applies the verdicts of a batch, gives its place back, and returns the owners whose Lost
// must be called, and the arguments for [Config.Judged].
func (w *Watchdog) judge(lane any, batch []Renewal, sent time.Time) (gone []Owner, judged []Renewal, left []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.leaveLocked(lane)
	now := w.now()
	for _, r := range batch {
		l := r.lease
		switch {
		case !l.watched(), l.life != r.life:
			continue // forgotten, or watched anew
		}
		if w.cfg.Judged != nil {
			judged, left = append(judged, r), append(left, max(l.deadline-now, 0))
		}
		if l.deadline <= now {
			continue // lost before the answer came; Lost is about to be called
		}
		switch r.Verdict {
		case Renewed:
			// r.Length is what the server was asked for. The lease's own length may be longer since,
			// by a command that was sent earlier.
			w.confirmLocked(l, sent, r.Length)
		case Gone:
			w.forgetLocked(l)
			gone = append(gone, r.Owner)
		default:
			if l.attempt != r.attempt {
				continue // confirmed elsewhere, or a newer attempt is under way: that one's verdict decides
			}
			l.backoff = nextBackoff(l.backoff, l.pace())
			w.put(&w.turns, l, now+jitter(l.backoff))
		}
	}
	return gone, judged, left
}
