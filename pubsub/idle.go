package pubsub

import "time"

// idle are the topics of a link that nobody waits for, in the order in which they were left: the
// first is the first to be dropped. They are a list through fields of their own, so that joining,
// leaving and looking for what has lingered cost the same among 60 000 others as alone. All of it
// is guarded by the hub's mu.
type idle struct{ first, last *topic }

// push adds a topic that was left now.
func (i *idle) push(t *topic) {
	t.idles, t.before = true, i.last
	if i.last != nil {
		i.last.after = t
	} else {
		i.first = t
	}
	i.last = t
}

// remove does nothing if t is not there.
func (i *idle) remove(t *topic) {
	if !t.idles {
		return
	}
	if t.before != nil {
		t.before.after = t.after
	} else {
		i.first = t.after
	}
	if t.after != nil {
		t.after.before = t.before
	} else {
		i.last = t.before
	}
	t.idles, t.before, t.after = false, nil, nil
}

// hurry makes a topic the first: its time is over.
func (i *idle) hurry(t *topic) {
	i.remove(t)
	t.idles, t.after = true, i.first
	if i.first != nil {
		i.first.before = t
	} else {
		i.last = t
	}
	i.first = t
}

// sweep drops the topics that have lingered and returns when to look again: not for each as its
// time comes, but for those of a quarter of the time together.
func (l *link) sweep() time.Duration {
	h := l.hub
	linger := h.opts.Linger
	next := time.Duration(1<<63 - 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.sweeping {
		return next
	}
	now := time.Now()
	for t := l.idle.first; t != nil; t = l.idle.first {
		h.swept++
		if left := linger - now.Sub(t.idleAt); left > 0 {
			next = left
			break
		}
		if t.state == subscribing || t.state == confirmed {
			l.drop = append(l.drop, t.channel)
		}
		h.forgetLocked(t)
	}
	if len(l.topics) == 0 {
		next = linger - now.Sub(l.emptyAt)
	}
	l.sweeping = l.idle.first != nil || len(l.topics) == 0
	return max(next, linger/4)
}
