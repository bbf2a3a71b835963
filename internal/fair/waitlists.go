package fair

import (
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/errs"
	"github.com/holdfast-go/holdfast/internal/panics"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/remote"
	"github.com/holdfast-go/holdfast/internal/suspend"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/pubsub"
)

const (
	// pollGap is how often a client polls a name that it waits for, if nothing happens: the waiter
	// that was granted the lock may be dead, and Redisson wakes only the waiter in front. A client
	// behind several others leaves polling to them, and only keeps its places.
	pollGap = time.Second
	// refreshGap is how often a client extends the deadlines of its places. A place counts for
	// three times as long.
	refreshGap = 5 * time.Second
	// doubtGap is the least time between two replacements of the connection for messages because
	// the server sees no listener on the mailbox.
	doubtGap = 3 * time.Second
	// listenFor is how long waiters wait for their mailbox to be subscribed before they ask for a place
	// without it. It is at most pollGap, after which waitlists are checked.
	listenFor = time.Second
	// pollChunk is how many places one script extends at most.
	pollChunk = 500
)

// waitlists are all waitlists of a client. One goroutine serves them, and runs while there are any.
// It never waits for a server.
type waitlists struct {
	client *engine.Client

	// mu guards the rest. It may be taken with the hub's mutex held, so the hub is never called
	// with mu held. It is never held over a network call.
	mu       sync.Mutex
	lists    map[queue.Key]*waitlist
	firsts   map[queue.Key]int // how many callers ask for a name by themselves
	senders  map[*redis.Client]*sender
	unsorted []*request // in a cluster: requests that no sender has yet
	sorting  bool
	polling  map[*redis.Client]bool // masters whose polls are under way
	running  bool
	kick     chan struct{} // 1-buffered: something is due earlier
}

func waitlistsOf(c *engine.Client) *waitlists {
	return engine.Attached(c, func(c *engine.Client) *waitlists {
		return &waitlists{
			client: c, lists: make(map[queue.Key]*waitlist), firsts: make(map[queue.Key]int),
			senders: make(map[*redis.Client]*sender), polling: make(map[*redis.Client]bool), kick: make(chan struct{}, 1),
		}
	})
}

// first counts the callers that ask for a name by themselves.
func (ls *waitlists) first(key *queue.Key, n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.firsts[*key] += n; ls.firsts[*key] == 0 {
		delete(ls.firsts, *key)
	}
}

// isFirst reports whether no caller of this client waits for a name or asks for it.
func (ls *waitlists) isFirst(key *queue.Key) bool {
	ls.mu.Lock()
	first := ls.lists[*key] == nil && ls.firsts[*key] == 0
	ls.mu.Unlock()
	return first
}

// syncLocked notes the server's time from the reply of a script, with the time at which the script
// was sent. It returns the server's time as a number.
func (l *waitlist) syncLocked(sent time.Time, micros string) int64 {
	at, err := strconv.ParseInt(micros, 10, 64)
	if err == nil && sent.After(l.sent) {
		l.sent, l.micros = sent, at
	}
	return at
}

// open makes the waitlist of a name if there is none, and returns it with the mutex held. It makes
// the subscription first, because the hub's mutex comes before ours. If two callers subscribe at
// once, one subscription is closed again.
func (ls *waitlists) open(s *server) *waitlist {
	key, mailbox := s.base.Key, s.protocol.Mailbox(ls.client.ID())
	fresh := &waitlist{lists: ls, server: s, waiters: make(map[string]*waiter), unsubscribedAt: time.Now()}
	fresh.sub = ls.client.Hub().Listen(mailbox, fresh)
	ls.mu.Lock()
	for ls.lists[key] != nil {
		ls.mu.Unlock()
		fresh.sub.Close()
		ls.mu.Lock()
		if l := ls.lists[key]; l != nil {
			return l
		}
		ls.mu.Unlock()
		fresh.sub = ls.client.Hub().Listen(mailbox, fresh)
		ls.mu.Lock()
	}
	ls.lists[key], fresh.due, fresh.refreshed = fresh, time.Now().Add(pollGap), time.Now()
	if !ls.running {
		ls.running = true
		ls.client.Tasks().Go(ls.run)
	}
	return fresh
}

// leave removes a waiter. The waitlist stays for a while, in case another waiter comes. leave
// reports whether a run has handed the lock off to the waiter.
func (ls *waitlists) leave(p *waiter) (takenOver bool) {
	ls.mu.Lock()
	ls.giveUpLocked(p)
	delete(p.list.waiters, p.owner)
	p.list.left = time.Now()
	if p.refusedAt != 0 {
		if p.list.inQueue--; p.list.inQueue == 0 {
			p.list.lastPlaceLeftLocked()
		}
	}
	takenOver = p.takenOver
	ls.mu.Unlock()
	if p.own != nil {
		p.own.Close()
	}
	return takenOver
}

// retire ends a waitlist whose mailbox the server refused, so that the next waiter subscribes
// again.
func (ls *waitlists) retire(l *waitlist) {
	ls.mu.Lock()
	if ls.lists[l.server.base.Key] == l {
		delete(ls.lists, l.server.base.Key)
	}
	called := l.called
	l.called = nil
	ls.mu.Unlock()
	l.sub.Close()
	if called != nil {
		called.Close()
	}
}

func (ls *waitlists) kickLocked() {
	select {
	case ls.kick <- struct{}{}:
	default:
	}
}

// run serves the waitlists until there are none. A new waitlist needs no kick, because its first
// poll is not due before the timer fires.
func (ls *waitlists) run() {
	timer := time.NewTimer(pollGap)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ls.kick:
		case <-ls.client.Context().Done():
			ls.wakeAll()
			return
		}
		polls, more := ls.duePolls(time.Now())
		if !more {
			return
		}
		ls.send(polls)
		timer.Reset(ls.pause())
	}
}

// wakeAll wakes all waiters when the client has ended. Later waiters see the end by themselves.
func (ls *waitlists) wakeAll() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.lists {
		for _, p := range l.waiters {
			p.wakeLocked()
		}
	}
}

// poll is one script that is due.
type poll struct {
	list      *waitlist
	call      lua.Call
	confirmed bool // the mailbox was subscribed before
	probes    bool // the script asks about one place only
}

// duePolls makes the scripts of the waitlists that are due, and ends waitlists that have been empty
// for a while. If no waitlist is left, more is false and the run ends.
func (ls *waitlists) duePolls(now time.Time) (polls []poll, more bool) {
	ended := ls.endIdle(now)
	for _, sub := range ended {
		sub.Close()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(ls.lists) == 0 {
		ls.running = false
		return nil, false
	}
	for _, l := range ls.lists {
		if l.due.After(now) || ls.pollingLocked(l) {
			continue
		}
		l.enterLocked(now)
		l.due = now.Add(l.gap())
		if len(l.waiters) == 0 {
			continue
		}
		owners, all := l.probe(now), l.lost || now.Sub(l.refreshed) >= refreshGap
		if all {
			l.refreshed = now
			owners = l.old(now)
		}
		for first := true; first || len(owners) > 0; first = false {
			n := min(len(owners), pollChunk)
			polls = append(polls, poll{l, l.server.protocol.Poll(ls.client.ID(), ls.client.Server().Publish, owners[:n]),
				l.confirmed, !all})
			owners = owners[n:]
		}
	}
	return polls, true
}

// old returns the owners whose places are old enough to be extended, or all owners if places were
// lost.
func (l *waitlist) old(now time.Time) (owners []Waiting) {
	for _, p := range l.waiters {
		if l.lost || now.Sub(p.since) >= refreshGap {
			owners = append(owners, p.waiting())
		}
	}
	l.lost = false
	return owners
}

// probe returns one place that is not quite new. If the server has lost that place, it may have lost
// all.
func (l *waitlist) probe(now time.Time) []Waiting {
	for _, p := range l.waiters {
		if now.Sub(p.since) >= pollGap {
			return []Waiting{p.waiting()}
		}
	}
	return nil
}

// endIdle removes the waitlists that have been empty for pollGap. It returns their subscriptions
// for the caller to close, because the hub must not be called with our mutex held.
func (ls *waitlists) endIdle(now time.Time) (ended []*pubsub.Subscription) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for key, l := range ls.lists {
		if len(l.waiters) > 0 || now.Sub(l.left) < pollGap {
			continue
		}
		delete(ls.lists, key)
		ended = append(ended, l.sub)
		if l.called != nil {
			ended = append(ended, l.called)
			l.called = nil
		}
	}
	return ended
}

// pause is the time until the next poll is due.
func (ls *waitlists) pause() time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	next := time.Now().Add(pollGap)
	for _, l := range ls.lists {
		if l.due.Before(next) && !ls.pollingLocked(l) {
			next = l.due
		}
	}
	return max(time.Until(next), 0)
}

// send runs the scripts in other goroutines, so that a master that hangs delays only its own
// waitlists.
func (ls *waitlists) send(polls []poll) {
	for master, due := range remote.ByMaster(ls.client.Server(), polls,
		func(p poll) string { return p.list.server.base.Key.Name }) {
		ls.setPolling(master, true)
		ls.client.Tasks().Go(func() {
			defer ls.setPolling(master, false)
			ls.sendTo(master, due)
		})
	}
}

// setPolling notes whether polls of a master are under way. Meanwhile that master's waitlists send no
// others. So a master that does not answer costs one goroutine and one connection, and not more and
// more.
func (ls *waitlists) setPolling(master *redis.Client, polling bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if polling {
		ls.polling[master] = true
		return
	}
	delete(ls.polling, master)
	ls.kickLocked()
}

func (ls *waitlists) pollingLocked(l *waitlist) bool {
	return len(ls.polling) > 0 && ls.polling[ls.client.Server().MasterOf(l.server.base.Key.Name)]
}

// sendTo runs the scripts of a master in one pipeline. Scripts that fail are left to the next poll.
func (ls *waitlists) sendTo(master *redis.Client, polls []poll) {
	calls := make([]lua.Call, len(polls))
	for i, p := range polls {
		calls[i] = p.call
	}
	sent, silent := suspend.System.Now(), false
	begun, ended := ls.client.Session().Begin(), ls.client.Server().Asking(master)
	ctx, cancel := ls.client.Server().Within(ls.client.Context(), max(ls.client.Session().Budget(), remote.LeastDial))
	defer cancel()
	results := lua.RunAll(ctx, ls.client.Redis(), calls)
	ended(results[0].Err)
	ls.client.Session().ReportAll(begun, calls, results)
	ls.client.Session().NotePanic(results[0].Err)
	for i, result := range results {
		if result.Err != nil {
			silent = silent || !errs.IsReply(result.Err)
			if why := panics.Text(result.Err); remote.IsOutage(result.Err) {
				polls[i].list.note.Failed().Store(&why)
			}
			continue
		}
		ls.apply(polls[i], sent, result.Reply.Poll())
	}
	if cluster := ls.client.Server().Cluster; silent && cluster != nil {
		cluster.ReloadState(ctx)
	}
}

// noteLocked notes what a poll says of who has the lock. Waiters for permits are told how many there are, whoever has them.
func (l *waitlist) noteLocked(sent time.Time, r lua.PollReply) {
	by := remote.InTheWay(r.Millis)
	if r.Holder != "" {
		by = remote.InTheWay(r.Millis, r.Holder)
	}
	by.Permits = r.Permits
	if r.Holder == "" && r.Permits.All == 0 {
		l.note.Free(sent)
		return
	}
	l.note.Refused(sent, by)
}

// apply wakes the waiters that the reply to a poll concerns: the waiter that was granted the lock, and
// those that have lost their places.
func (ls *waitlists) apply(p poll, sent time.Time, r lua.PollReply) {
	l := p.list
	ls.mu.Lock()
	l.syncLocked(sent, r.Time)
	l.noteLocked(sent, r)
	for _, owner := range append(r.Missing, r.Holder) {
		if p := l.waiters[owner]; p != nil {
			p.signalLocked()
		}
	}
	l.far = r.Far
	if p.probes && len(r.Missing) > 0 && r.Missing[0] != r.Holder && len(l.waiters) > 1 {
		l.lost, l.due = true, sent
	}
	l.endsLocked(sent, r.Millis)
	// We are subscribed, but not at the lock's server: the lock has moved to another server, and
	// the old one did not close our connection.
	wrongServer := p.confirmed && l.confirmed && r.Listeners == 0 && sent.Sub(l.doubted) > doubtGap
	if wrongServer {
		l.doubted = sent
	}
	caller, old := r.Called, l.called
	same := caller == l.caller || ls.lists[l.server.base.Key] != l
	ls.mu.Unlock()
	if wrongServer {
		l.sub.Reconnect()
	}
	if same {
		return
	}
	var called *pubsub.Subscription
	if caller != "" {
		called = ls.client.Hub().Listen(l.server.protocol.Mailbox(caller), (*redissonCalls)(l))
	}
	ls.mu.Lock()
	if ls.lists[l.server.base.Key] == l {
		l.called, l.caller = called, caller
	} else {
		old = called // the waitlist ended meanwhile, and closed the old subscription
	}
	ls.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// redissonCalls is a waitlist as a listener on the channel where Redisson calls the first waiter.
// After such a call a poll takes the lock for that waiter.
type redissonCalls waitlist

// Message is called with the hub's mutex held.
func (c *redissonCalls) Message(string) { c.Look(true) }

// Look is called with the hub's mutex held.
func (c *redissonCalls) Look(bool) {
	c.lists.mu.Lock()
	defer c.lists.mu.Unlock()
	c.due = time.Time{}
	c.lists.kickLocked()
}
