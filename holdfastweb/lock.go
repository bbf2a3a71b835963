package holdfastweb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/keys"
	"github.com/holdfast-go/holdfast/internal/panics"
)

// fullPurse is what pages of single locks may take at once: some dozens of them.
const fullPurse = 100 * time.Millisecond

// lockPage is all that is known of a name.
type lockPage struct {
	frame
	Body   lockBody
	Events string
	Now    int64
}

// lockBody is the part that changes.
type lockBody struct {
	Name  string
	Head  head
	Parts []lockPart
}

// lockPart is what one master has.
type lockPart struct {
	Server             string // empty: there is only one
	Kind, About, Token string
	Since, Left        moment
	Problems           []inspect.Problem
	Facts              []fact
	Holders            []holderRow
	Modes, Counts      bool // of holders: some have them
	CountIs            string
	Queue              []waiterRow
	Waiting, Waiters   string
	More               bool
	Unknown            bool // nothing is known
}

type fact struct{ Name, Value string }

type holderRow struct {
	ownerCell
	Mode, Notes string
	Count       int
	Left        moment
	End         string // link; empty: whoever looks may not
}

type waiterRow struct {
	ownerCell
	Place int
	Notes string
	Dead  bool
}

// ownerCell is an owner, with the label of its client.
type ownerCell struct {
	Owner, Label string
	All          string // link to all locks of its client; empty: it is not known which client that is
}

func newOwnerCell(owner, client, label string) ownerCell {
	c := ownerCell{Owner: shown(owner, 200), Label: shown(label, 200)}
	if client != "" {
		c.All = "./" + view{viewKey: viewKey{match: client, sort: defaultSort}}.link()
	}
	return c
}

// mayBe reports whether a page may be about a name, and why not.
func (h *Handler) mayBe(name string) error {
	if h.opts.Match != "" && !inspect.Matches(h.opts.Match, name) {
		return fmt.Errorf("this page shows only names that match %s, and %s does not", visible(h.opts.Match), shown(name, 200))
	}
	return nil
}

// permitted reports whether whoever sent a request may end holds of a name.
func (h *Handler) permitted(r *http.Request, name string) (who string, ok bool) {
	if h.opts.Permit == nil {
		return "", false
	}
	return h.opts.Permit(r, name)
}

// errBusy is that others have asked for so many pages that this one would have to wait.
var errBusy = errors.New("many pages of single locks were asked for: Redis has not answered them yet, or this page spares it; try again in a moment")

// ask asks every master for a name, all at the same time: one that is silent does not hide what the others
// have. What none says is told by outages.
func (h *Handler) ask(ctx context.Context, name string) (locks map[int]*entry, down map[int]outage) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errBusy)
	defer cancel()
	locks, down = make(map[int]*entry), make(map[int]outage)
	var mu sync.Mutex // guards locks and down
	var all sync.WaitGroup
	for at, i := range h.masters {
		all.Go(func() {
			var l inspect.Lock
			err := h.single[at].do(ctx, func() (err error) {
				defer panics.Into(&err) // of a hook of go-redis: here nobody else would take it
				if l, err = i.Lock(ctx, name); err == nil {
					h.poller.role(ctx, at)
				}
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				down[at] = h.poller.failed(at, err)
				return
			}
			h.poller.succeeded(at)
			locks[at] = h.poller.entry(at, l, nil)
		})
	}
	all.Wait()
	return locks, down
}

func (h *Handler) lock(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if err := h.mayBe(name); err != nil {
		h.say(w, http.StatusNotFound, "Not here", err.Error())
		return
	}
	if err := keys.Check(name); err != nil {
		h.say(w, http.StatusNotFound, "Not a lock", err.Error())
		return
	}
	locks, down := h.ask(r.Context(), name)
	_, ok := h.permitted(r, name)
	now := time.Now()
	status := http.StatusOK
	if len(locks) == 0 {
		status = http.StatusServiceUnavailable
	}
	h.render(w, status, "lock", lockPage{
		h.frame(shown(name, inRow)), h.body(name, locks, down, ok, now, false), "events?" + url.Values{"name": {name}}.Encode(), now.UnixMilli(),
	})
}

// body is the page of a name, live or as it is.
func (h *Handler) body(name string, locks map[int]*entry, down map[int]outage, permitted bool, now time.Time, live bool) lockBody {
	b := lockBody{Name: shown(name, inFull), Head: head{State: "ok"}}
	for at := range h.masters {
		if o, is := down[at]; is {
			b.Head.State = "down"
			b.Head.Says = append(b.Head.Says, h.why(at, o))
		}
	}
	if asked := h.poller.owed(); live && !asked.IsZero() && now.Sub(asked) > silence {
		b.Head.State = "down"
		b.Head.Says = append(b.Head.Says, fmt.Sprintf("Redis has not answered since %s.", clock(asked)))
	}
	b.Head.Says = append(b.Head.Says, h.aboutReplicas()...)
	for at := range h.masters {
		part := lockPart{Unknown: true}
		if e := locks[at]; e != nil {
			part = h.part(e, locks, permitted && !h.poller.replicas[at].Load(), now, live)
			if _, is := down[at]; is {
				text := whatYouSee(e.seen)
				if len(h.names) > 0 {
					text = h.names[at] + ": " + text
				}
				b.Head.Says = append(b.Head.Says, text)
			}
		}
		if len(h.names) > 0 {
			part.Server = h.names[at]
		}
		b.Parts = append(b.Parts, part)
	}
	return b
}

// about says what a kind is, where its name does not.
var about = map[inspect.Kind]string{
	inspect.Nothing: "There is nothing at this name, nor was there within the last hour.",
	inspect.Free:    "Nobody has it. Somebody had within the last hour.",
	inspect.Plain:   "An rlock, a fairlock that nobody waits for, or one master's part of a redlock. Redisson's look the same.",
	inspect.Latch:   "Or somebody's counter: the two look the same.",
	inspect.Foreign: "Something else has this name.",
}

func (h *Handler) part(e *entry, locks map[int]*entry, permitted bool, now time.Time, live bool) lockPart {
	l := &e.lock
	p := lockPart{Kind: kindName(l.Kind), CountIs: "times", About: about[l.Kind], Since: since(e.granted, now, live), Left: e.until(now, live), Problems: l.Problems, More: l.More}
	if l.Token != 0 {
		p.Token = strconv.FormatUint(l.Token, 10)
	}
	p.Waiting, p.Waiters = waiting(l)
	if s := l.Permits; s != nil {
		p.CountIs = "permits"
		p.Facts = append(p.Facts, fact{"permits", fmt.Sprintf("%d in all, %d free, %d out", s.All, s.Free, s.Out)})
	}
	if l.Kind == inspect.Latch {
		p.Facts = append(p.Facts, fact{"to count", strconv.FormatInt(l.Count, 10)})
	}
	if s := l.Leader; s != nil {
		p.Facts = append(p.Facts, fact{"leader", shown(s.Owner, 200)}, fact{"says", shown(s.Value, 1024)})
	}
	for _, who := range l.Holders {
		row := holderRow{ownerCell: newOwnerCell(who.Owner, who.Client(), who.Label), Mode: string(who.Mode), Count: who.Count}
		ends := moment{0, "no end"}
		if who.Remaining >= 0 && who.Remaining < 99*365*24*time.Hour {
			at := settled(e.seen.Add(who.Remaining), e.ends)
			ends = moment{at.Unix(), ""}
			if !live {
				ends.Text = short(at.Sub(now))
			}
		}
		row.Left = ends
		switch {
		case who.Left:
			row.Notes = "has unlocked; the lock stays taken for a while"
		case who.Redisson:
			row.Notes = "Redisson"
		}
		if permitted {
			row.End = holdAt(l.Name, who, locks).link()
		}
		p.Modes, p.Counts = p.Modes || row.Mode != "", p.Counts || row.Count > 1
		p.Holders = append(p.Holders, row)
	}
	for n, who := range l.Queue {
		p.Queue = append(p.Queue, waiterOf(n+1, who))
	}
	return p
}

func waiterOf(place int, who inspect.Waiter) waiterRow {
	row := waiterRow{ownerCell: newOwnerCell(who.Owner, who.Client(), who.Label), Place: place, Dead: !who.Alive()}
	var notes []string
	if who.Wants > 1 {
		notes = append(notes, fmt.Sprintf("wants %d", who.Wants))
	}
	switch {
	case who.Remaining <= 0:
		notes = append(notes, "its place has ended")
	case who.Listening == 0:
		notes = append(notes, "dead, or out of reach: nobody listens")
	}
	if who.Redisson {
		notes = append(notes, "Redisson")
	}
	row.Notes = strings.Join(notes, "; ")
	return row
}

// holdAt is what an owner has, at all masters that say so.
func holdAt(name string, who inspect.Holder, locks map[int]*entry) hold {
	h := hold{name: name, owner: who.Raw}
	for _, at := range slices.Sorted(maps.Keys(locks)) {
		for _, other := range locks[at].lock.Holders {
			if other.Raw == who.Raw {
				h.parts = append(h.parts, part{at, pinned(&locks[at].lock, other)})
				break
			}
		}
	}
	return h
}

// pinned is the token that says which grant it is, 0 where the owner alone does: the last token of readers
// and permits is that of whoever came last, and an owner of theirs has one grant.
func pinned(l *inspect.Lock, who inspect.Holder) uint64 {
	if who.Mode == inspect.Read || l.Kind == inspect.Semaphore {
		return 0
	}
	return l.Token
}

// lockStream is a live page of one lock.
type lockStream struct {
	*Handler
	name      string
	permitted bool
	told      string
}

func (h *Handler) lockStream(r *http.Request, name string) *lockStream {
	_, ok := h.permitted(r, name)
	return &lockStream{h, name, ok, ""}
}

func (l *lockStream) keys() (list []key) {
	for at := range l.masters {
		list = append(list, key{at, l.name})
	}
	return list
}

func (l *lockStream) next(s *snapshot, now time.Time) (u update, changed bool) {
	locks := make(map[int]*entry)
	for at := range l.masters {
		if e := s.find(key{at, l.name}); e != nil {
			locks[at] = e
		}
	}
	if len(locks) == 0 && len(s.down) == 0 {
		return u, false // what the page showed at first is not older
	}
	text := fragment("body", l.body(l.name, locks, s.down, l.permitted, now, true))
	if text == l.told {
		return u, false
	}
	l.told = text
	return update{Body: &text, Now: now.UnixMilli()}, true
}
