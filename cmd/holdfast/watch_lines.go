package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// event is a line of "watch". The names of its fields in JSON stay; there may be more.
type event struct {
	Time      time.Time `json:"time"`
	Event     string    `json:"event"`
	Name      string    `json:"name"`
	Bytes     string    `json:"name_base64,omitempty"` // of a name that is no UTF-8
	Kind      string    `json:"kind,omitempty"`        // rlock is also the fair one
	Owner     string    `json:"owner,omitempty"`
	Label     string    `json:"label,omitempty"` // of the owner's client
	Token     string    `json:"token,omitempty"` // a string: it is greater than the numbers of JavaScript
	Count     *int      `json:"count,omitempty"` // of a latch: what is left
	LeaseMS   *int64    `json:"lease_left_ms,omitempty"`
	Waiters   *int      `json:"waiters,omitempty"`
	Listening *int      `json:"listening,omitempty"` // connections, where waiters have no places
	Leader    string    `json:"leader,omitempty"`
	Note      string    `json:"note,omitempty"`
}

// unknownName is the note of a name that is free and has no trace of a lock.
const unknownName = "nothing is known of this name: there is no lock, nor was there within the last hour"

// unlockedNote is the note of an owner that has unlocked a lock that stays taken.
const unlockedNote = "unlocked; stays taken (HoldAtLeast)"

// between is what happened from one look to the next. Before the first one there was nil.
func between(before, now *sight) (events []event) {
	if before == nil {
		if now.kind == "latch" {
			return []event{now.counted()}
		}
		for _, h := range now.holders {
			events = append(events, now.of("held", h))
		}
		if events == nil {
			free := now.without("free", "")
			if now.kind == "" && now.token == 0 {
				free.Note = unknownName
			}
			events = append(events, free)
		}
		return events
	}
	if now.kind == "latch" || before.kind == "latch" {
		if now.left != before.left || now.kind != before.kind {
			events = append(events, now.counted())
		}
		return events
	}
	was := map[string]holdfast.Holder{}
	for _, h := range before.holders {
		was[h.Owner] = h
	}
	for _, h := range now.holders {
		delete(was, h.Owner)
	}
	for _, h := range before.holders { // in their order, and before the grants
		if _, gone := was[h.Owner]; gone {
			events = append(events, now.without("released", h.Owner))
		}
		was[h.Owner] = h
	}
	for _, h := range now.holders {
		switch old, had := was[h.Owner]; {
		case !had:
			events = append(events, now.of("granted", h))
		case now.unlocked[h.Owner] && !before.unlocked[h.Owner]:
			events = append(events, now.of("unlocked", h))
		case old.Count != h.Count:
			events = append(events, now.of("entered", h))
		case now.token > before.token && len(now.holders) == 1 && now.kind != "rwlock":
			events = append(events, now.of("handed on", h))
		}
	}
	if len(before.holders)+len(now.holders) == 0 && now.token > before.token {
		events = append(events, now.of("missed", holdfast.Holder{}))
	}
	return events
}

// without is an event of one who has nothing.
func (s *sight) without(what, owner string) event {
	e := event{Time: s.at, Event: what, Kind: s.kind, Owner: owner}
	switch {
	case s.waiters > 0 && s.listen:
		if e.Listening = &s.waiters; s.places > 0 {
			e.Waiters = &s.places
		}
	case s.waiters >= 0:
		e.Waiters = &s.waiters
	}
	return e
}

func (s *sight) of(what string, h holdfast.Holder) event {
	e := s.without(what, h.Owner)
	if s.token > 0 {
		e.Token = strconv.FormatUint(s.token, 10)
	}
	if h.Owner != "" {
		left := h.Remaining.Milliseconds()
		e.Count, e.LeaseMS, e.Leader = &h.Count, &left, s.leader
	}
	if s.unlocked[h.Owner] {
		e.Note = unlockedNote
	}
	return e
}

func (s *sight) counted() event {
	e := s.without("counted", "")
	e.Count = &s.left
	return e
}

// lines prints for people. On a terminal that is narrow, an owner has its label, as much as fits, or the beginning of its
// client's id and its own number.
func lines(out io.Writer) func(event) error {
	s := newScreen(out)
	f, file := out.(*os.File)
	const others, whole = 66, 42                                              // columns: of all but the owner, and of an owner that is whole
	short := file && term.IsTerminal(int(f.Fd())) && s.width() < others+whole //nolint:gosec // a file descriptor fits
	owners := whole
	if short {
		owners = max(s.width()-others, 14)
	}
	headed := false
	return func(e event) error {
		if !headed {
			headed = true
			head := fmt.Sprintf("%-12s  %-9s  %-*s  %-16s  %5s  %6s  %4s", "TIME", "EVENT", owners, "OWNER", "TOKEN", "COUNT",
				"LEFT", "WAIT")
			if _, err := fmt.Fprintln(out, s.paint(bold, strings.TrimRight(head, " "))); err != nil {
				return err
			}
		}
		owner := visible(e.Owner)
		if client, number, ok := strings.Cut(owner, ":"); short && ok && len(client) > 8 {
			owner = client[:8] + ":" + number
		}
		if short && e.Label != "" {
			owner = middleCut(visible(e.Label), owners)
		}
		wait := "?"
		if e.Listening != nil {
			wait = "~" + number(e.Listening)
		} else if e.Waiters != nil {
			wait = number(e.Waiters)
		}
		line := fmt.Sprintf("%s  %s  %-*s  %-16s  %5s  %6s  %4s", e.Time.Format("15:04:05.000"),
			s.paint(eventColours[e.Event], fmt.Sprintf("%-9s", e.Event)), owners, cmp.Or(owner, "-"), cmp.Or(e.Token, "-"),
			number(e.Count), left(e.LeaseMS), wait)
		if !short && e.Label != "" {
			line += "  " + visible(e.Label)
		}
		if e.Leader != "" {
			line += "  " + printable.Text(e.Leader, 60)
		}
		if e.Note != "" {
			line += "  " + e.Note
		}
		_, err := fmt.Fprintln(out, line)
		return err
	}
}

var eventColours = map[string]string{
	"held": green, "granted": green, "released": dim, "free": dim, "missed": yellow, "handed on": dim, "entered": dim, "unlocked": dim,
	"counted": green,
}

func number(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func left(ms *int64) string {
	switch {
	case ms == nil:
		return "-"
	case *ms < 0:
		return "none" // no lease at all
	case *ms >= 10*time.Minute.Milliseconds():
		return strconv.FormatInt(*ms/time.Minute.Milliseconds(), 10) + "m"
	}
	return strconv.FormatFloat(float64(*ms)/1000, 'f', 1, 64) + "s"
}
