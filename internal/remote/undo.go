package remote

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// undoer gives back locks that a server may have granted to owner ids out of use. Nobody uses such
// an id again, so a release that is sent later cannot hit a later grant. One goroutine sends the
// releases for all ids, in pipelines, and runs while there is something to do. So an outage in
// which thousands of callers leave costs one goroutine.
//
// A straggler is a request on a connection that we gave up. Redis may execute it after a release
// that was sent later. Where there may be a straggler, three releases are sent: one at once; one
// when the server has answered the first, and so has read all that had reached it by then; and the
// last one when the server refuses any straggler because it is late.
type undoer struct {
	home *Session // whose holds they were: its options and its end count
	to   *Server
	end  func() // is called at the end of a run
	why  error  // the last failure of a run; the goroutine's own

	mu      sync.Mutex // guards the rest; never held over a network call
	due     undos
	running bool
	kick    chan struct{} // 1-buffered: something is due earlier
	closing time.Time     // since when it is known that the client is closing
}

// undo is one lock to give back, of one owner id.
type undo struct {
	lock  kind.Lock
	id    string
	at    time.Time     // of the next release
	left  int           // releases that are still to be answered
	late  time.Time     // when no straggler can take the lock any more
	limit time.Time     // when the lease of the last one has ended, and its place, and there is nothing to give back
	stays time.Time     // until then the lock is to stay taken; zero: it is not
	pause time.Duration // after the last failure; 0: there was none
}

const (
	undoBatch = 500
	// undoTogether is how many releases of one lock are one script at most, so that it takes no long time.
	undoTogether = 100
	// longestPause bounds the pause between two releases of a lock that the server answered with an
	// error. Pauses double up to it.
	longestPause = 30 * time.Second
	// longestProbe is the same where the server does not answer. It may be short because then one
	// release is sent at a time, however many are due.
	longestProbe = time.Second
)

// Undo gives back a lock that a server may have granted to an owner id out of use. It does so in
// the background, and Close waits for that. stray says that there may be a straggler; without one,
// one release is enough. A lock that is to stay taken for a rest of time is given back after that
// time. The server's client may be closed already.
func (s *Session) Undo(to *Server, l kind.Lock, id string, rest, lease time.Duration, stray bool) {
	now := time.Now()
	u := &undo{lock: l, id: id, at: now, left: 1, late: to.Clock.closed()}
	if stray {
		u.left = 3
	}
	if rest > 0 {
		u.at = now.Add(rest + rest/watchdog.Drift + time.Millisecond) // the server's clock may be slower
		u.stays = u.at
	}
	u.limit = Latest(u.at, u.late).Add(lease + lease/watchdog.Drift)
	s.undoer(undoing{to, to.MasterOf(l.Name())}).add(u)
}

// undoing is what an undoer is for: a server, the client's own or one of a quorum, and one master
// of it if it is a cluster. So a master that hangs holds up only its own locks.
type undoing struct {
	to     *Server
	master *redis.Client
}

// undoer returns the undoer for a server.
func (s *Session) undoer(to undoing) *undoer {
	s.undoMu.Lock()
	defer s.undoMu.Unlock()
	u := s.undoers[to]
	if u == nil {
		u = &undoer{home: s, to: to.to, kick: make(chan struct{}, 1)}
		u.end = func() { s.dropUndoer(to, u) }
		if s.undoers == nil {
			s.undoers = make(map[undoing]*undoer)
		}
		s.undoers[to] = u
	}
	return u
}

// dropUndoer forgets an undoer that has nothing to do, because masters come and go. It still works
// if something is added to it afterwards.
func (s *Session) dropUndoer(to undoing, u *undoer) {
	s.undoMu.Lock()
	defer s.undoMu.Unlock()
	if s.undoers[to] == u {
		delete(s.undoers, to)
	}
}

func (u *undoer) add(one *undo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	heap.Push(&u.due, one)
	if !u.running {
		u.running = true
		u.home.Tasks.Go(u.run)
	}
	select {
	case u.kick <- struct{}{}:
	default:
	}
}

// run sends the releases that are due, until none is left. A server that does not answer gets one
// release at a time, with pauses. When the client is closing, all releases are due, and are tried
// for a moment.
func (u *undoer) run() {
	defer u.end()
	room, pause := undoBatch, time.Duration(0)
	for {
		batch, next := u.take(room)
		switch {
		case len(batch) == 0 && next.IsZero():
			return
		case len(batch) == 0:
			u.wait(time.Until(next))
		case u.release(batch):
			room, pause = undoBatch, 0
		default:
			room, pause = 1, min(max(2*pause, FirstBackoff), longestProbe)
			if !u.giveUp() {
				u.wait(pause)
			}
		}
	}
}

// wait waits for so long, or until the client is closed or something is added, which is due at
// once.
func (u *undoer) wait(d time.Duration) {
	closing := u.home.Life.Done()
	u.mu.Lock()
	if !u.closing.IsZero() { // not by Life: it may have ended since take looked, which then has to look again
		closing = nil
	}
	u.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-u.kick:
	case <-closing:
	}
}

// giveUp drops all releases when the client has been closing for long enough.
func (u *undoer) giveUp() bool {
	u.mu.Lock()
	rest := u.due
	over := !u.closing.IsZero() && time.Since(u.closing) > u.home.Budget()
	if over {
		u.due = nil
	}
	u.mu.Unlock()
	if over && len(rest) > 0 {
		u.report(rest, len(rest), rest)
	}
	return over
}

// take removes the releases that are due, at most room of them. If none is due it returns when the
// next one is. The zero time ends the run.
func (u *undoer) take(room int) (batch []*undo, next time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.home.Life.Err() != nil && u.closing.IsZero() {
		u.closing = now
	}
	if !u.closing.IsZero() {
		u.due = u.due.hasten(now)
	}
	for len(u.due) > 0 && len(batch) < room && !u.due[0].at.After(now) {
		batch = append(batch, heap.Pop(&u.due).(*undo))
	}
	switch {
	case len(batch) > 0:
		return batch, now
	case len(u.due) > 0:
		return nil, u.due[0].at
	}
	u.running = false
	return nil, time.Time{}
}

// release sends one release for each undo, in one pipeline, and puts back the undos that need
// another one. It reports whether the server answered.
func (u *undoer) release(batch []*undo) (answered bool) {
	parties := together(batch)
	calls := make([]lua.Call, len(parties))
	for i, party := range parties {
		calls[i] = party.call(u.home.Publish)
	}
	sent := time.Now()
	ctx, cancel := context.WithTimeoutCause(context.Background(), max(u.home.Budget(), LeastDial), ErrBudget)
	defer cancel()
	var again []*undo
	var failure error
	failed := 0
	var given []*undo
	answered = true
	results := lua.RunAll(ctx, u.to.redis, calls)
	u.home.ReportAll(sent, calls, results)
	for i, result := range results {
		for _, one := range parties[i] {
			if result.Err == nil || IsOverwritten(one.lock, result.Err) {
				if one.answered(sent) {
					again = append(again, one)
				}
				continue
			}
			answered = answered && errs.IsReply(result.Err)
			failed, failure = failed+1, result.Err
			if !u.postpone(one, errs.IsReply(result.Err)) {
				given = append(given, one)
				continue
			}
			again = append(again, one)
		}
	}
	u.mu.Lock()
	for _, one := range again {
		heap.Push(&u.due, one)
	}
	u.mu.Unlock()
	if !answered && u.to.Cluster != nil {
		u.to.Cluster.ReloadState(ctx)
	}
	if failed > 0 {
		u.why = failure
		u.home.NotePanic(failure)
		u.report(batch, failed, given)
	}
	return answered
}

// leavers are undos of one lock that one script does.
type leavers []*undo

// together makes parties of undos. Those of a queue travel in one script each: callers who leave at once
// cost the server little more than one of them, and those who still wait do not wait for each.
func together(batch []*undo) (parties []leavers) {
	type name struct{ kind, lock string }
	open := make(map[name]int)
	for _, one := range batch {
		of := name{one.lock.Kind(), one.lock.Name()}
		_, queues := one.lock.(kind.Queuer)
		if i, ok := open[of]; ok && queues && len(parties[i]) < undoTogether {
			parties[i] = append(parties[i], one)
			continue
		}
		open[of] = len(parties)
		parties = append(parties, leavers{one})
	}
	return parties
}

func (l leavers) call(publish string) lua.Call {
	if len(l) == 1 {
		return l[0].lock.Release(l[0].id, publish)
	}
	others := make([]string, len(l)-1)
	for i, one := range l[1:] {
		others[i] = one.id
	}
	return l[0].lock.(kind.Queuer).ReleaseRun(l[0].id, others, publish)
}

// IsOverwritten reports whether an error of a release, a renewal or a count says that the lock's hash is
// gone, and something else stands in its place. It is said of the kind beside which other libraries set
// strings; these scripts of others ask for more keys than the hash, and the error does not say for which.
func IsOverwritten(l kind.Lock, err error) bool {
	if err == nil {
		return false
	}
	_, alone := l.(kind.Neighbour)
	return alone && lua.IsError(err, "WRONGTYPE")
}

// answered reports whether another release is needed after the answer to one that was sent at sent.
func (one *undo) answered(sent time.Time) bool {
	one.left--
	one.pause = 0
	if one.left <= 0 || !sent.Before(one.late) {
		return false
	}
	one.at = sent
	if one.left == 1 {
		one.at = one.late
	}
	return true
}

// postpone puts off an undo that failed, with an answer or without one. It reports whether there is
// to be another attempt.
func (u *undoer) postpone(one *undo, answered bool) bool {
	now, longest := time.Now(), longestProbe
	if answered {
		longest = longestPause
	}
	one.pause = min(max(2*one.pause, FirstBackoff), longest)
	one.at = now.Add(one.pause)
	if now.After(one.limit) {
		return false
	}
	return u.home.Life.Err() == nil || one.pause <= closingBudget
}

// report logs a failure, once for all releases of a pipeline. Locks that the client gives up while it
// is closing, and that may be left, are in the error of Close too.
func (u *undoer) report(batch []*undo, failed int, given []*undo) {
	one := batch[0]
	log := u.home.Log.With("kind", one.lock.Kind(), "name", one.lock.Name(), "owner", one.id, "error", u.why)
	left := 0
	if u.home.Life.Err() != nil {
		left = lasting(given)
	}
	switch {
	case left > 0:
		u.home.NoteUnreleased(left, errs.Both(errs.ErrUnavailable, errs.Both(errs.ErrUncertain, u.why)))
	case len(given) > 0:
		log.Warn("could not give back locks that may still stand at the server; their leases end them", "locks", len(given))
	}
	if failed > len(given) && one.pause >= LastBackoff { // the first pauses are short, and often enough
		log.Info("cannot give back locks that may still stand at the server; trying again", "locks", failed-len(given),
			"pause", one.pause)
	}
}

// lasting counts the locks whose leases may not have ended. Votes of a quorum lock do not count:
// those that are left at a minority of the masters keep nobody out.
func lasting(list []*undo) (n int) {
	now := time.Now()
	for _, one := range list {
		if _, vote := one.lock.(kind.Voter); !vote && now.Before(one.limit) {
			n++
		}
	}
	return n
}

// undos are a heap, by time.
type undos []*undo

func (h undos) Len() int           { return len(h) }
func (h undos) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h undos) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *undos) Push(one any) { *h = append(*h, one.(*undo)) }

// Pop is for package heap.
func (h *undos) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return one
}

// hasten makes undos due for Close. It leaves out undos that wait only for stragglers to be late,
// or for the end of a time for which the lock is to stay taken: Close does not wait for those.
func (h undos) hasten(now time.Time) (rest undos) {
	for _, one := range h {
		if !one.stays.After(now) && (one.left > 1 || one.pause > 0 || !one.at.After(now)) {
			rest = append(rest, one)
		}
	}
	heap.Init(&rest)
	return rest
}
