package watchdog

import (
	"context"
	"math/rand/v2"
	"time"
)

// run keeps the time: it sleeps until the next lease is due, tells owners of what is lost and sends off what is to be
// renewed.
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
			batch, lost := w.due(timer)
			for _, l := range lost {
				l.Lost(ErrDeadline)
			}
			if len(batch) == 0 {
				break
			}
			w.send(batch)
		}
	}
}

// due takes what is to be done now, at most a batch of renewals, and sets the timer for what comes after if that is all.
func (w *Watchdog) due(timer *time.Timer) (batch []Renewal, lost []Owner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for len(w.heap) > 0 && len(batch) < w.cfg.MaxBatch {
		l := w.heap[0]
		switch {
		case !l.deadline.After(now): // also after a pause: no renewal is sent for a lease that ran out
			lost = append(lost, l.owner)
			w.forgetLocked(l)
			continue
		case !l.next.After(now), len(batch) > 0 && l.renew && l.next.Sub(now) < l.length/ahead:
			if w.inFlight < inFlight {
				batch = append(batch, Renewal{Owner: l.owner, Length: l.length, lease: l, life: l.life})
				l.schedule(now.Add(patience(l.length))) // unless the verdict comes first
			} else { // it comes again when a batch may have ended; what is behind it in the heap need not wait
				l.schedule(now.Add(min(patience(l.length), 250*time.Millisecond)))
			}
			w.heap.fix(l)
			continue
		}
		break
	}
	if len(batch) > 0 {
		w.inFlight++
		return batch, lost
	}
	w.wake = time.Time{}
	if len(w.heap) > 0 {
		w.wake = w.heap[0].next
		timer.Reset(w.wake.Sub(now))
	}
	return nil, lost
}

// send renews a batch beside the clock, so that a server that is silent does not stop it.
func (w *Watchdog) send(batch []Renewal) {
	if w.alone {
		w.renew(batch)
		return
	}
	w.group.Go(func() { w.renew(batch) })
}

func (w *Watchdog) renew(batch []Renewal) {
	longest := time.Duration(0)
	for _, r := range batch {
		longest = max(longest, r.Length)
	}
	ctx, cancel := context.WithTimeoutCause(w.ctx, patience(longest), errPatience)
	defer cancel()
	sent := time.Now() // before the call: the server cannot have renewed earlier
	w.cfg.Renew(ctx, batch)
	for _, l := range w.judge(batch, sent) {
		l.Lost(ErrGone)
	}
}

// judge applies the verdicts, and returns who has to be told.
func (w *Watchdog) judge(batch []Renewal, sent time.Time) (gone []Owner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight--
	now := time.Now()
	for _, r := range batch {
		l := r.lease
		if l.life != r.life || l.place == 0 || !l.deadline.After(now) {
			continue // forgotten, or watched anew, or lost before the answer came: lost is lost
		}
		switch r.Verdict {
		case Renewed:
			l.confirm(sent)
		case Gone:
			w.forgetLocked(l)
			gone = append(gone, r.Owner)
			continue
		default:
			l.backoff = min(max(2*l.backoff, firstBackoff), patience(l.length))
			l.schedule(now.Add(l.backoff/2 + rand.N(l.backoff/2+1))) //nolint:gosec // spreads load, guards nothing
		}
		w.heap.fix(l)
		w.wakeFor(l)
	}
	return gone
}
