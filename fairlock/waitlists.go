package fairlock

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
	// pollGap is how often a client looks after a name that it waits for, if nothing happens: who
	// was handed the lock may be dead, and Redisson tells nobody but the one in front. A client
	// that stands behind several others leaves that to them, and only puts off its places.
	pollGap = time.Second
	// refreshGap is how often it puts off the deadlines of its places, which count for three times
	// as long.
	refreshGap = 5 * time.Second
	// doubtGap is how often a connection for messages is replaced because nobody seems to listen on
	// it.
	doubtGap = 3 * time.Second
	// pollChunk is how many places are put off by one script at most.
	pollChunk = 500
)

// waitlists are all waitlists of a client. One goroutine looks after them, and runs while there are
// any; it waits for no server.
type waitlists struct {
	client *engine.Client

	// mu guards the rest. It may be taken with the hub's mutex held, so the hub is never called
	// with it held; and it is never held over a network call.
	mu       sync.Mutex
	lists    map[queue.Key]*waitlist
	firsts   map[queue.Key]int // who asks for a name themselves
	askers   map[*redis.Client]*asker
	unsorted []*inquiry // of a cluster, for one of the askers
	sorting  bool
	asked    map[*redis.Client]bool // masters whose polls are under way
	running  bool
	kick     chan struct{} // 1-buffered: something is due earlier
}

func waitlistsOf(c *engine.Client) *waitlists {
	return engine.Attached(c, func(c *engine.Client) *waitlists {
		return &waitlists{
			client: c, lists: make(map[queue.Key]*waitlist), firsts: make(map[queue.Key]int),
			askers: make(map[*redis.Client]*asker), asked: make(map[*redis.Client]bool), kick: make(chan struct{}, 1),
		}
	})
}

// first counts those who ask for a name themselves.
func (ls *waitlists) first(key queue.Key, n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.firsts[key] += n; ls.firsts[key] == 0 {
		delete(ls.firsts, key)
	}
}

// isFirst reports whether nobody of this client waits for a name, nor asks for it.
func (ls *waitlists) isFirst(key queue.Key) bool {
	ls.mu.Lock()
	first := ls.lists[key] == nil && ls.firsts[key] == 0
	ls.mu.Unlock()
	return first
}

// syncLocked notes a moment of the server: a script that was sent at that time said that it was so
// late there. It returns the moment as a number.
func (l *waitlist) syncLocked(sent time.Time, micros string) int64 {
	at, err := strconv.ParseInt(micros, 10, 64)
	if err == nil && sent.After(l.sent) {
		l.sent, l.micros = sent, at
	}
	return at
}

// open makes the waitlist of a name if there is none, and returns it with the mutex held. The
// subscription is made before, because the hub's mutex comes before ours; of two that are made at
// once one is closed again.
func (ls *waitlists) open(s *server) *waitlist {
	key, mailbox := s.base.Key, s.protocol.Mailbox(ls.client.ID())
	fresh := &waitlist{lists: ls, server: s, waiters: make(map[string]*waiter)}
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

// leave takes a waiter out. The waitlist stays for a while, in case another comes.
func (ls *waitlists) leave(p *waiter) {
	ls.mu.Lock()
	ls.giveUpLocked(p)
	delete(p.list.waiters, p.acquisition.Owner())
	p.list.left = time.Now()
	ls.mu.Unlock()
	if p.own != nil {
		p.own.Close()
	}
}

// retire ends a waitlist whose mailbox was refused, so that the next to come asks for it again.
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

// run looks after the waitlists until there are none. A new one needs no kick: its first poll is
// not due before the next look.
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

// wakeAll wakes all who wait, when the client has ended. Who comes later sees that itself.
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
	probes    bool // only one of the places was asked about
}

// duePolls makes the scripts of the waitlists that are due, and ends those in which nobody has been
// for a while. Without any it ends the run.
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
		if l.due.After(now) || ls.askedLocked(l) {
			continue
		}
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

// old are the owners whose places were made long enough ago to be put off, or all, if places were
// lost.
func (l *waitlist) old(now time.Time) (owners []string) {
	for owner, p := range l.waiters {
		if l.lost || now.Sub(p.since) >= refreshGap {
			owners = append(owners, owner)
		}
	}
	l.lost = false
	return owners
}

// probe is an owner of any place that is not quite new. If the server has lost it, it may have lost
// them all.
func (l *waitlist) probe(now time.Time) []string {
	for owner, p := range l.waiters {
		if now.Sub(p.since) >= pollGap {
			return []string{owner}
		}
	}
	return nil
}

// endIdle takes out the waitlists in which nobody has been for a poll's time, and returns their
// subscriptions: they are the hub's, which is not called with our mutex held.
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

// pause is how long nothing is due.
func (ls *waitlists) pause() time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	next := time.Now().Add(pollGap)
	for _, l := range ls.lists {
		if l.due.Before(next) && !ls.askedLocked(l) {
			next = l.due
		}
	}
	return max(time.Until(next), 0)
}

// send has the scripts run beside the one goroutine: a master that hangs keeps its own waitlists
// only.
func (ls *waitlists) send(polls []poll) {
	for master, due := range remote.ByMaster(ls.client.Server(), polls,
		func(p poll) string { return p.list.server.base.Key.Name }) {
		ls.setAsked(master, true)
		ls.client.Tasks().Go(func() {
			defer ls.setAsked(master, false)
			ls.sendTo(due)
		})
	}
}

// setAsked notes that the polls of a master are under way. Until they have ended its waitlists have
// no others, so that one that does not answer costs a goroutine and a connection and not more and
// more of them.
func (ls *waitlists) setAsked(master *redis.Client, asked bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if asked {
		ls.asked[master] = true
		return
	}
	delete(ls.asked, master)
	ls.kickLocked()
}

func (ls *waitlists) askedLocked(l *waitlist) bool {
	return len(ls.asked) > 0 && ls.asked[ls.client.Server().MasterOf(l.server.base.Key.Name)]
}

// sendTo runs the scripts in one pipeline. What fails is left to the next poll.
func (ls *waitlists) sendTo(polls []poll) {
	calls := make([]lua.Call, len(polls))
	for i, p := range polls {
		calls[i] = p.call
	}
	sent, silent := suspend.System.Now(), false
	results := lua.RunAll(ls.client.Context(), ls.client.Redis(), calls)
	ls.client.Session().NotePanic(results[0].Err)
	for i, result := range results {
		if result.Err != nil {
			silent = silent || !errs.IsReply(result.Err)
			ls.mu.Lock()
			polls[i].list.failed = panics.Text(result.Err)
			ls.mu.Unlock()
			continue
		}
		ls.apply(polls[i], sent, result.Reply)
	}
	if cluster := ls.client.Server().Cluster; silent && cluster != nil {
		cluster.ReloadState(ls.client.Context())
	}
}

// apply wakes those whom the reply to a poll concerns: who was handed the lock, and who has no
// place any more.
func (ls *waitlists) apply(p poll, sent time.Time, r lua.Reply) {
	l, missing := p.list, r.Texts(6)
	ls.mu.Lock()
	l.syncLocked(sent, r.Text(1))
	l.failed = nil
	if holder := r.Text(2); holder != "" {
		l.said = engine.Word{At: time.Now(), Blocker: remote.InTheWay(r.Int(0), holder)}
	}
	for _, owner := range append(missing, r.Text(2)) {
		if p := l.waiters[owner]; p != nil {
			p.signalLocked()
		}
	}
	l.far = r.Int(5) == 1
	if p.probes && len(missing) > 0 && missing[0] != r.Text(2) && len(l.waiters) > 1 {
		l.lost, l.due = true, sent
	}
	if left := time.Duration(r.Int(0)) * time.Millisecond; left >= 0 && sent.Add(left).Before(l.due) {
		l.due = sent.Add(left + time.Millisecond) // the holder's lease ends, and nobody tells
	}
	// We listen, and not where the lock is: the server that it is on has changed, and the old one
	// did not close the connection.
	deaf := p.confirmed && l.confirmed && r.Int(4) == 0 && sent.Sub(l.doubted) > doubtGap
	if deaf {
		l.doubted = sent
	}
	caller, old := r.Text(3), l.called
	same := caller == l.caller || ls.lists[l.server.base.Key] != l
	ls.mu.Unlock()
	if deaf {
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
		old = called // it ended meanwhile, and closed the old one
	}
	ls.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// redissonCalls is the waitlist as a listener on the channel where Redisson calls its first waiter:
// a poll then takes the lock for it.
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
