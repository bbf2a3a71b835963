package remote

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/watchdog"
)

// undoer gives back locks that a server may have granted to owner ids that are not used any more.
// Nobody uses such an id again, so a release that is sent later cannot hit a later grant. One
// goroutine sends the releases for all ids, in pipelines. It runs while there is something to do.
// So an outage in which thousands of callers leave costs one goroutine.
//
// A straggler is a request on a connection that we gave up. Redis may execute it after a release
// that was sent later. If there may be a straggler, the undoer sends three releases. The first is
// sent at once. The second is sent when the server has answered the first, and so has read
// everything that had reached it by then. The last is sent when the server refuses any straggler
// because it is late.
type undoer struct {
	home *Session // the client that had the holds; its options and its end count
	to   *Server
	end  func() // is called at the end of a run
	why  error  // the last failure of a run; the goroutine's own

	mu      sync.Mutex // guards the rest; never held over a network call
	due     undos
	late    map[string]*undo // by id: those that there may be a straggler of, in due or being sent
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
	late  time.Time     // from then on no straggler can take the lock
	limit time.Time     // from then on the last lease and place have ended, and there is nothing to give back
	stays time.Time     // until then the lock must stay taken; zero: it need not
	pause time.Duration // after the last failure; 0: there was none

	landed bool // a straggler has been answered, and no release was sent since; guarded by the undoer's mu
}

const (
	// maxPipeline is the most releases in one pipeline.
	maxPipeline = 500
	// longestPause limits the pause between two releases of a lock that the server answered with an
	// error. Pauses double up to it.
	longestPause = 30 * time.Second
	// longestProbe is the same where the server does not answer. It may be short because then one
	// release is sent at a time, however many are due.
	longestProbe = time.Second
)

// Undo gives back a lock that a server may have granted to an owner id that is not used any more.
// It does so in the background, and Close waits for that. mayArriveLate says that there may be a straggler;
// without one, one release is enough. A lock that must stay taken for rest is given back after that
// time. The server's client may be closed already.
func (s *Session) Undo(to *Server, l kind.Lock, id string, rest, lease time.Duration, mayArriveLate bool) {
	now := time.Now()
	u := &undo{lock: l, id: id, at: now, left: 1, late: to.Clock.closed()}
	if mayArriveLate {
		u.left = 3
	}
	if rest > 0 {
		u.at = now.Add(rest + rest/watchdog.Drift + time.Millisecond) // the server's clock may be slower
		u.stays = u.at
	}
	u.limit = Latest(u.at, u.late).Add(lease + lease/watchdog.Drift)
	s.undoer(undoing{to, to.MasterOf(l.Name())}).add(u)
}

// WhenLanded gives an id back once more when a request of it is answered that its caller has left, if err says so. The id
// may be given back already, or not yet, or never.
func (s *Session) WhenLanded(to *Server, l kind.Lock, id string, err error) {
	combine.WhenLanded(err, func() {
		s.undoMu.Lock()
		u := s.undoers[undoing{to, to.MasterOf(l.Name())}]
		s.undoMu.Unlock()
		if u != nil {
			u.noteLanded(id)
		}
	})
}

// noteLanded has an id given back once more, and at once.
func (u *undoer) noteLanded(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.late[id]
	if one == nil {
		return
	}
	one.landed = true
	if i := slices.Index(u.due, one); i >= 0 { // else it is being sent, and requeue sees to it
		u.due[i].again()
		heap.Fix(&u.due, i)
		u.wake()
	}
}

// again adds a release that is due now. The caller holds the undoer's mu.
func (one *undo) again() {
	one.landed = false
	one.left++
	one.at = Latest(time.Now(), one.stays)
}

// requeue puts back the undos that need another release, and forgets the others.
func (u *undoer) requeue(again, ended []*undo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range ended {
		if one.landed {
			again = append(again, one)
		} else if u.late[one.id] == one {
			delete(u.late, one.id)
		}
	}
	for _, one := range again {
		if one.landed {
			one.again()
		}
		heap.Push(&u.due, one)
	}
}

// undoing names the target of an undoer: a server, the client's own or one of a quorum, and one of
// its masters if it is a cluster. So a master that hangs holds up only its own locks.
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

// dropUndoer forgets an undoer that has nothing to do, because masters come and go. The undoer
// still works if something is added to it afterwards.
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
	if one.left > 1 {
		if u.late == nil {
			u.late = make(map[string]*undo)
		}
		u.late[one.id] = one
	}
	if !u.running {
		u.running = true
		u.home.Tasks.Go(u.run)
	}
	u.wake()
}

// wake has run look again at what is due.
func (u *undoer) wake() {
	select {
	case u.kick <- struct{}{}:
	default:
	}
}

// run sends the releases that are due, until none is left. A server that does not answer gets one
// release at a time, with pauses. When the client is closing, all releases are due, and run tries
// them for a moment.
func (u *undoer) run() {
	defer u.end()
	room, pause := maxPipeline, time.Duration(0)
	for {
		batch, next := u.take(room)
		switch {
		case len(batch) == 0 && next.IsZero():
			return
		case len(batch) == 0:
			u.wait(time.Until(next))
		case u.release(batch):
			room, pause = maxPipeline, 0
		default:
			room, pause = 1, min(max(2*pause, FirstBackoff), longestProbe)
			if !u.giveUp() {
				u.wait(pause)
			}
		}
	}
}

// wait returns after d, or when the client is closed, or when something is added, which is due at
// once.
func (u *undoer) wait(d time.Duration) {
	closing := u.home.Life.Done()
	u.mu.Lock()
	if !u.closing.IsZero() { // not by Life: it may have ended since take looked, and then take must look again
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

// giveUp drops all releases if the client has been closing for longer than its budget.
func (u *undoer) giveUp() bool {
	u.mu.Lock()
	rest := u.due
	over := !u.closing.IsZero() && time.Since(u.closing) > u.home.Budget()
	if over {
		u.due, u.late = nil, nil
	}
	u.mu.Unlock()
	if over && len(rest) > 0 {
		u.report(rest, len(rest), rest)
	}
	return over
}

// take removes the releases that are due, at most room of them. If none is due, next is when the
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

// release sends one release for each undo, in one pipeline. It puts back the undos that need
// another release. It reports whether the server answered.
func (u *undoer) release(due []*undo) (answered bool) {
	batches := together(due)
	calls := make([]lua.Call, len(batches))
	for i, batch := range batches {
		calls[i] = batch.call(u.home.Publish)
	}
	sent := time.Now()
	ctx, cancel := u.to.Within(context.Background(), max(u.home.Budget(), LeastDial))
	defer cancel()
	var again, ended []*undo
	var failure error
	failed := 0
	var given []*undo
	answered = true
	results := lua.RunAll(ctx, u.to.redis, calls)
	u.home.ReportAll(sent, calls, results)
	for i, result := range results {
		for _, one := range batches[i] {
			if result.Err == nil || IsOverwritten(one.lock, result.Err) {
				if one.answered(sent) {
					again = append(again, one)
				} else {
					ended = append(ended, one)
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
	u.requeue(again, append(ended, given...))
	if !answered && u.to.Cluster != nil {
		u.to.Cluster.ReloadState(ctx)
	}
	if failed > 0 {
		u.why = failure
		u.home.NotePanic(failure)
		u.report(due, failed, given)
	}
	return answered
}

// answered notes an answer to a release that was sent at sent. It reports whether another release
// is needed.
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

// postpone puts off an undo that failed, with an answer or without one. It reports whether another
// attempt follows.
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

// report logs a failure, once for all releases of a pipeline. given are the locks that the undoer
// gives up. If the client is closing, the error of Close names those that may still be taken, too. Nothing was taken at a
// server that was never reached.
func (u *undoer) report(due []*undo, failed int, given []*undo) {
	if u.to.NeverReached() {
		return
	}
	one := due[0]
	log := u.home.Log.With("kind", one.lock.Kind(), "name", one.lock.Name(), "owner", one.id, "error", u.why)
	left := 0
	if u.home.Life.Err() != nil {
		left = lasting(given)
	}
	switch {
	case left > 0:
		u.home.NoteUnreleased(left, errs.Both(errs.ErrUnavailable, errs.Both(errs.ErrUncertain, u.why)))
	case len(given) > 0:
		log.Warn("could not release locks that the server may still have; their leases end them", "locks", len(given))
	}
	if failed > len(given) && one.pause >= LastBackoff { // the first pauses are short, and often enough
		log.Info("cannot release locks that the server may still have; trying again", "locks", failed-len(given),
			"pause", one.pause)
	}
}

// lasting counts the locks whose leases may not have ended. Votes of a quorum lock do not count:
// votes that are left at a minority of the masters keep no other owner out.
func lasting(list []*undo) (n int) {
	now := time.Now()
	for _, one := range list {
		if _, vote := one.lock.(kind.Voter); !vote && now.Before(one.limit) {
			n++
		}
	}
	return n
}

// undos is a heap, ordered by time.
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

// hasten returns the undos that are due for Close. It leaves out undos that wait only until
// stragglers are late, or until the end of a time for which the lock must stay taken. Close does
// not wait for those.
func (h undos) hasten(now time.Time) (rest undos) {
	for _, one := range h {
		if !one.stays.After(now) && (one.left > 1 || one.pause > 0 || !one.at.After(now)) {
			rest = append(rest, one)
		}
	}
	heap.Init(&rest)
	return rest
}
