package holdfastweb

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
)

// moment is a time that a live page counts from, or down to.
type moment struct {
	Unix int64  // seconds; 0: there is none
	Text string // how long that is, or what stands for it
}

// since is how long ago something was. A live page counts itself, so that there the text is left out: a
// row that only grows older is the same row.
func since(t, now time.Time, live bool) moment {
	switch {
	case t.IsZero():
		return moment{0, "–"}
	case live:
		return moment{t.Unix(), ""}
	}
	return moment{t.Unix(), short(now.Sub(t))}
}

// until is how long there is to go.
func (e *entry) until(now time.Time, live bool) moment {
	switch {
	case e.lock.Type == "none" && len(e.lock.Holders) == 0:
		return moment{0, "–"}
	case e.ends.IsZero() || e.ends.Sub(now) > 99*365*24*time.Hour:
		return moment{0, "no end"}
	case live:
		return moment{e.ends.Unix(), ""}
	}
	return moment{e.ends.Unix(), short(e.ends.Sub(now))}
}

// row is a lock in the list.
type row struct {
	ID, Name, Link, Kind string
	Holder, Owner, More  string // of the first holder: its label or its owner; its owner if it has a label
	Since, Left          moment
	Waiting, Waiters     string // a number, and what it is in words
	Grants, GrantsAre    string // likewise
	Token, Server        string
	Flags                []string
}

// row is for a live page, or for one that is as it is.
func (h *Handler) row(e *entry, now time.Time, live bool) row {
	l := &e.lock
	r := row{
		ID: e.id(), Name: shown(l.Name, inRow), Link: linkTo(l.Name), Kind: kindName(l.Kind), Since: since(e.granted, now, live),
		Left: e.until(now, live), Token: "–",
	}
	if r.Kind == "" {
		r.Kind = "?"
	}
	r.Holder, r.Owner, r.More = holders(l)
	r.Waiting, r.Waiters = waiting(l)
	r.Grants, r.GrantsAre = e.grants(now)
	if l.Token != 0 {
		r.Token = strconv.FormatUint(l.Token, 10)
	}
	for _, p := range l.Problems {
		r.Flags = append(r.Flags, string(p.Trouble))
	}
	if len(h.names) > 0 {
		r.Server = h.names[e.at]
	}
	return r
}

// holders is who has a lock, or what stands for that.
func holders(l *inspect.Lock) (holder, its, more string) {
	switch {
	case l.Kind == inspect.Latch:
		return strconv.FormatInt(l.Count, 10) + " to count", "", ""
	case len(l.Holders) == 0:
		return "nobody", "", ""
	}
	first := &l.Holders[0]
	holder = owner(first.Owner)
	if first.Label != "" {
		holder, its = shown(first.Label, 48), holder
	}
	switch n := len(l.Holders) - 1; {
	case first.Left:
		more = "has unlocked; it stays taken"
	case l.More && n > 0:
		more = fmt.Sprintf("and %d more or so", n)
	case n > 0:
		more = fmt.Sprintf("and %d more", n)
	case l.Permits != nil:
		more = plural(int(l.Permits.Out), "permit", "permits")
	}
	return holder, its, more
}

func waiting(l *inspect.Lock) (number, words string) {
	more := ""
	if l.Uncounted() {
		more = "; waiters inside the holder's process are not counted"
	}
	switch n, about := l.Waiting(); {
	case n < 0:
		return "?", "not known" + more
	case about:
		words = either(n, "connection listens", "connections listen") + " for a release"
		switch {
		case l.Kind == inspect.ReadWrite && l.Waiters > 0:
			words += fmt.Sprintf(", %d of them with a place; readers that wait have no places", l.Waiters)
		case l.Kind == inspect.ReadWrite:
			words += "; readers that wait have no places"
		case l.Waiters != 0:
			words += "; this kind keeps no queue"
		}
		return "~" + strconv.Itoa(n), words + more
	case n > 0:
		return strconv.Itoa(n), either(n, "waits", "wait") + " in the queue" + more
	case l.Waiters == 0:
		return "0", "nobody waits"
	}
	return "0", "nobody listens for a release"
}
