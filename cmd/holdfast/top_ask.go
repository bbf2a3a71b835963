package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// askWithin bounds a question of the user's.
const askWithin = 5 * time.Second

// detail is one lock, with all that is known of it.
type detail struct {
	key  live.Key
	lock *inspect.Lock // nil: not known yet
	err  error
}

// inspect asks for the detail of a lock.
func (m *topModel) inspect(key live.Key) {
	if m.detail == nil || m.detail.key != key {
		m.detail = &detail{key: key}
	}
	pic := m.desk.pic
	replica := m.replicas[key.Server]
	m.desk.do(func(ctx context.Context) tea.Msg { // if one is under way already, the next beat asks again
		d := look(ctx, pic, key)
		if replica {
			*d.lock = d.lock.AtReplica()
		}
		return &d
	})
}

func look(ctx context.Context, pic *live.Picture, key live.Key) detail {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	l, err := pic.Lock(ctx, key)
	return detail{key, &l, err}
}

// lines are what the pane shows.
func (d *detail) lines(width int, colour bool) []string {
	switch {
	case d.err != nil:
		return wrap("not known: "+printable.Line(d.err.Error()), width)
	case d.lock == nil:
		return []string{"asking…"}
	}
	var b bytes.Buffer
	s := &sheet{screen: &screen{out: &b, colour: colour}, columns: width, noEnd: true}
	_ = s.print(d.lock, true) // a buffer takes all; several servers refuse a token, so an owner is named
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if d.lock.Kind == inspect.Nothing {
		lines = append(lines, "nobody has it any more")
	}
	return lines
}

// question is whether a hold is to be ended. What it shows is what is ended, whatever happens meanwhile.
type question struct {
	detail
	holder int
}

// wantEnd asks for the lock as it is now, and then the user.
func (m *topModel) wantEnd() {
	switch {
	case m.readOnly:
		m.note = "--read-only: nothing is ended from here"
		return
	case len(m.rows) == 0:
		return
	case m.replicas[m.selected.Server]:
		m.note = "this server is a replica: holds end at the master"
		return
	}
	pic, key := m.desk.pic, m.selected
	m.asked(func(ctx context.Context) tea.Msg { return &question{detail: look(ctx, pic, key)} })
}

// put shows the question, if there is a hold to be ended.
func (m *topModel) put(q *question) {
	name := printable.Quote(q.key.Name)
	switch {
	case q.err != nil:
		m.note = "not asked: " + printable.Line(q.err.Error())
	case q.lock.Kind == inspect.Latch:
		m.note = name + " looks like a latch, which nobody holds"
	case len(q.lock.Holders) == 0:
		m.note = name + ": nobody has it"
	default:
		m.question, m.mode = q, asking
	}
}

// grant is the hold that is meant: of that owner, and where the token stands for it, of that grant.
func (q *question) grant() inspect.Grant {
	g := inspect.Grant{Owner: q.lock.Holders[q.holder].Raw}
	if oneGrant(q.lock) {
		g.Token = q.lock.Token
	}
	return g
}

// answer is a key while there is a question.
func (m *topModel) answer(name string) {
	q := m.question
	n := len(q.lock.Holders)
	switch name {
	case "up", "left":
		q.holder = (q.holder + n - 1) % n
	case "down", "right", "tab":
		q.holder = (q.holder + 1) % n
	case "y", "Y":
		m.mode = listing
		pic, g := m.desk.pic, q.grant()
		m.asked(func(ctx context.Context) tea.Msg { return endHold(ctx, pic, q.key, g) })
	default:
		m.mode, m.note = listing, "not confirmed; nothing was changed"
	}
}

// ended is what came of ending a hold.
type ended string

func endHold(ctx context.Context, pic *live.Picture, key live.Key, g inspect.Grant) ended {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	e, err := pic.End(ctx, key, g)
	switch {
	case errors.Is(err, inspect.ErrStale), errors.Is(err, inspect.ErrFree):
		return ended(fmt.Sprintf("%s was not unlocked, and nothing was changed: %s", printable.Quote(key.Name), printable.Line(err.Error())))
	case err != nil:
		return ended(fmt.Sprintf("%s: %s", printable.Quote(key.Name), printable.Line(err.Error())))
	}
	return ended(fmt.Sprintf("%s: the hold of %s was ended. %s", visible(key.Name), visible(e.Holder.Owner), notices(&e)))
}

// endOf is what is asked for: to end a hold of a lock.
func endOf(l *inspect.Lock, h inspect.Holder) string {
	text := fmt.Sprintf("End the hold of %s on %s", ownerAndLabel(h.Owner, h.Label), visible(l.Name))
	if oneGrant(l) {
		text += ", token " + tokenOf(l)
	}
	return text
}

// ownerAndLabel is who a client is.
func ownerAndLabel(owner, label string) string {
	if label == "" {
		return visible(owner)
	}
	return visible(owner) + " (" + visible(label) + ")"
}

// lines are the question as it is shown.
func (q *question) lines(width int) []string {
	lines := wrap(endOf(q.lock, q.lock.Holders[q.holder])+"?", width)
	if n := len(q.lock.Holders); n > 1 {
		lines = append(lines, wrap(fmt.Sprintf("It is holder %d of %d; the arrows choose another. The others keep what they have.", q.holder+1, n), width)...)
	}
	lines = append(lines, wrap("A holder that is alive works on for a while: only fencing tokens protect from that.", width)...)
	return append(lines, "y: end it    any other key: leave it")
}
