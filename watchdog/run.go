package watchdog

import (
	"context"
	"time"
)

// run keeps the time: it sleeps until the next moment, tells owners of what is lost and sends off what is to be renewed.
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
			lost, batch := w.due(timer)
			for _, o := range lost {
				o.Lost(ErrDeadline)
			}
			if len(batch) > 0 {
				w.send(batch)
			}
			if len(lost)+len(batch) == 0 {
				break
			}
		}
	}
}

// due takes what is to be done now: deadlines first, then a batch of renewals. Never more than a batch, so that the mutex
// is not held for long when 100 000 are due. If there is nothing it sets the timer for what comes next.
func (w *Watchdog) due(timer *time.Timer) (lost []Owner, batch []Renewal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.epoch)
	for w.ends.len() > 0 && w.ends.entries[0].at <= now {
		if len(lost) == w.cfg.MaxBatch {
			return lost, nil // renewals are for what is not lost, so all deadlines come first
		}
		l := w.ends.entries[0].l
		lost = append(lost, l.owner)
		w.forgetLocked(l)
	}
	if w.inFlight < maxInFlight {
		batch = w.batchLocked(now)
	}
	switch {
	case len(batch) > 0:
		w.inFlight++
	case len(lost) == 0:
		w.sleepLocked(timer, now)
	}
	return lost, batch
}

// batchLocked takes the leases that are due, and with them those that are soon.
func (w *Watchdog) batchLocked(now time.Duration) (batch []Renewal) {
	for w.turns.len() > 0 && len(batch) < w.cfg.MaxBatch {
		first := w.turns.entries[0]
		l, early := first.l, slack(first.l.pace())
		if w.off.narrow {
			early = l.pace() / 30
		}
		if first.at > now && (len(batch) == 0 || first.at-now > early) {
			break
		}
		l.attempt++
		l.by = 0
		batch = append(batch, Renewal{Owner: l.owner, Length: l.length, lease: l, life: l.life, attempt: l.attempt})
		w.turns.put(l, now+overdue(l.pace())) // unless the verdict comes first
	}
	return batch
}

// sleepLocked sets the timer for the next moment. While no batch may start, renewals are none: the next to end looks for
// them. When there is nothing to wait for, it keeps the moment that it last slept for. That costs one look for nothing,
// and spares the next lease a poke: a client that takes and releases one lock would else poke every time that the
// goroutine happens to look in between.
func (w *Watchdog) sleepLocked(timer *time.Timer, now time.Duration) {
	next := forever
	if w.ends.len() > 0 {
		next = w.ends.entries[0].at
	}
	if w.inFlight < maxInFlight && w.turns.len() > 0 {
		next = min(next, w.turns.entries[0].at)
	}
	if next == forever && w.wake > now {
		next = w.wake
	}
	w.wake = next
	if next != forever {
		timer.Reset(next - now)
	}
}

// send renews a batch beside the clock, so that a server that is silent does not stop it.
func (w *Watchdog) send(batch []Renewal) {
	if w.off.beside {
		w.renew(batch)
		return
	}
	w.group.Go(func() { w.renew(batch) })
}

func (w *Watchdog) renew(batch []Renewal) {
	if w.off.beforeRun != nil {
		w.off.beforeRun()
	}
	batch, sent := w.begin(batch)
	if len(batch) > 0 {
		w.call(batch)
	}
	for _, o := range w.judge(batch, sent) {
		o.Lost(ErrGone)
	}
}

// begin drops what was forgotten or ran out since the batch was made, for this goroutine may have waited to be scheduled,
// and takes the send time, before the call: the server cannot have renewed earlier. All of it with the mutex held, so
// that a Forget is either before it, and the lease is not renewed, or after it.
func (w *Watchdog) begin(batch []Renewal) (rest []Renewal, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent = time.Now()
	rest = batch[:0]
	for _, r := range batch {
		if !w.off.recheck && (r.lease.life != r.life || !r.lease.deadline.After(sent)) {
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

// judge applies the verdicts, and returns who has to be told.
func (w *Watchdog) judge(batch []Renewal, sent time.Time) (gone []Owner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight--
	now := time.Now()
	for _, r := range batch {
		l := r.lease
		switch {
		case !l.watched(), l.life != r.life && !w.off.life:
			continue // forgotten, or watched anew
		case !l.deadline.After(now) && !w.off.deadline:
			continue // lost before the answer came, and about to be told
		}
		switch r.Verdict {
		case Renewed:
			length := r.Length // what the server was told. The lease's own may be longer since, by a command sent earlier
			if w.off.length {
				length = l.length
			}
			w.confirmLocked(l, sent, length)
		case Gone:
			w.forgetLocked(l)
			gone = append(gone, r.Owner)
		default:
			if l.attempt != r.attempt {
				continue // confirmed elsewhere, or a newer attempt is under way: that one's verdict decides
			}
			l.backoff = nextBackoff(l.backoff, l.pace())
			w.put(&w.turns, l, now.Sub(w.epoch)+jitter(l.backoff))
		}
	}
	if w.turns.len() > 0 {
		w.wakeBy(w.turns.entries[0].at) // there is a place for another batch
	}
	return gone
}
