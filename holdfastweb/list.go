package holdfastweb

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lua"
)

// patience is how long a page waits for what Redis says, before it shows what is known.
const patience = 3 * time.Second

// listPage is the list as it is at one time.
type listPage struct {
	frame
	Match          string
	Show           string
	Kinds          []choice
	Sorts          []choice
	Columns        []column
	Rows           []row
	Servers        bool // there are several
	Head           head
	Here, Events   string // addresses: of the page, and where a live one listens
	Now            int64  // by this machine's clock, as all times are
	Filtered, Wait bool
}

// head is what stands over the list, and changes with it.
type head struct {
	State        string // of class: "ok", "old" or "down"
	Says         []string
	Deadlocks    []deadlock
	Count, Pages string
	Prev, Next   string // links, empty where there is none
	Empty        string // why there is no row
	TooLong      bool   // that is because the filter takes too long
}

type choice struct {
	Value, Text string
	Chosen      bool
}

// column is a heading, by which people sort.
type column struct{ Text, Class, Link, Sorted string }

// sorts are in the order of the form.
var sorts = []choice{
	{defaultSort, "needs attention first", false}, {"name", "name", false}, {"kind", "kind", false}, {"since", "held longest", false},
	{"left", "ends soonest", false}, {"waiting", "most waited for", false}, {"grants", "granted most often", false},
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request) {
	v := viewOf(r.URL.Query())
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	s := h.poller.recent(ctx)
	now := time.Now()
	shown, head := h.look(s, v, now, false)
	p := listPage{
		frame: h.frame(""), Match: visible(v.match), Show: v.show, Servers: len(h.names) > 0, Head: head, Here: v.link(), Events: strings.TrimSuffix("events?"+v.query(), "?"), Now: now.UnixMilli(),
		Filtered: v.viewKey != viewKey{sort: defaultSort}, Wait: s.taken.IsZero() && len(s.down) == 0,
	}
	for _, k := range kinds {
		p.Kinds = append(p.Kinds, choice{string(k), kindName(k), string(k) == v.kind})
	}
	p.Sorts = slices.Clone(sorts)
	for n := range p.Sorts {
		p.Sorts[n].Chosen = p.Sorts[n].Value == v.sort
	}
	p.Columns = h.columns(v)
	for _, e := range shown {
		p.Rows = append(p.Rows, h.row(e, now, false))
	}
	h.render(w, http.StatusOK, "list", p)
}

func (h *Handler) columns(v view) []column {
	list := []column{
		{"Name", "name", "name", ""}, {"Kind", "kind", "kind", ""}, {"Held by", "holder", "", ""}, {"Held for", "time", "since", ""},
		{"Left", "time", "left", ""}, {"Waiting", "number", "waiting", ""}, {"Grants/s", "number", "grants", ""},
		{"Token", "token", "", ""},
	}
	if len(h.names) > 0 {
		list = append(list, column{"Master", "server", "", ""})
	}
	for n := range list {
		c := &list[n]
		if by := c.Link; by != "" {
			if c.Link = v.sorted(by).link(); v.sort == by {
				c.Sorted = map[bool]string{false: "ascending", true: "descending"}[v.down]
			}
		}
	}
	return list
}

// look is what a view shows.
func (h *Handler) look(s *snapshot, v view, now time.Time, live bool) (rows []*entry, hd head) {
	what := s.of(v.viewKey)
	all := what.list
	size := h.opts.Rows
	last := max((len(all)+size-1)/size, 1)
	v.page = min(v.page, last)
	rows = all[(v.page-1)*size : min(v.page*size, len(all))]

	hd = h.state(s, now)
	var says []string
	hd.Deadlocks, says = h.deadlocks(s, now, live)
	hd.Says = append(hd.Says, says...)
	if !s.taken.IsZero() { // no number, where nobody knows it
		hd.Count = plural(len(all), "lock", "locks")
	}
	if len(all) < len(s.list) {
		hd.Count += " of " + grouped(len(s.list))
	}
	if what.kinds != "" {
		hd.Count += ": " + what.kinds
	}
	if s.more {
		hd.Says = append(hd.Says, fmt.Sprintf("There are more than %s locks, and the others are not here: “holdfast ls 'PATTERN'” goes through all, "+
			"and a lock whose name you know can be opened below.", grouped(h.opts.MaxLocks)))
	}
	if last > 1 {
		hd.Pages = fmt.Sprintf("%s–%s", grouped((v.page-1)*size+1), grouped((v.page-1)*size+len(rows)))
	}
	if v.page > 1 {
		hd.Prev = v.at(v.page - 1).link()
	}
	if v.page < last {
		hd.Next = v.at(v.page + 1).link()
	}
	switch {
	case len(rows) > 0:
	case what.tooLong:
		hd.Count, hd.TooLong = "", true
		hd.Empty = "This filter takes too long for so many names: use fewer of * ? [, or a part of a name, and reload the page."
	case s.taken.IsZero() && len(s.down) > 0:
		hd.Empty = "Nothing is known."
	case s.taken.IsZero():
		hd.Empty = "Redis is being asked."
	case len(s.list) == 0:
		hd.Empty = "No locks held or waited for."
	default:
		hd.Empty = "No locks match."
	}
	return rows, hd
}

// silence is after how long a server that owes an answer is said to be silent.
const silence = 5 * time.Second

// state says how old the list is, and who does not answer.
func (h *Handler) state(s *snapshot, now time.Time) head {
	hd := head{State: "ok"}
	if asked := h.poller.owed(); !asked.IsZero() && now.Sub(asked) > silence {
		hd.State = "down"
		hd.Says = append(hd.Says, fmt.Sprintf("Redis has not answered since %s.", clock(asked)))
	}
	for at := range h.masters {
		if o, is := s.down[at]; is {
			hd.State = "down"
			hd.Says = append(hd.Says, h.why(at, o))
		}
	}
	hd.Says = append(hd.Says, h.aboutReplicas()...)
	switch age := now.Sub(s.taken); {
	case s.taken.IsZero():
	case hd.State == "down":
		hd.Says = append(hd.Says, whatYouSee(s.taken))
	case s.next.Sub(s.taken) > 10*time.Second && age > 5*time.Second:
		hd.State = "old"
		hd.Says = append(hd.Says, fmt.Sprintf("List refreshes every %s, to spare Redis: last at %s. The locks shown are kept up to date.",
			short(s.next.Sub(s.taken)), clock(s.taken)))
	}
	return hd
}

// whatYouSee says how old is what a page shows.
func whatYouSee(seen time.Time) string { return fmt.Sprintf("What you see is from %s.", clock(seen)) }

// aboutReplicas says what the page cannot tell of a replica.
func (h *Handler) aboutReplicas() (says []string) {
	for at := range h.masters {
		if h.poller.replicas[at].Load() {
			says = append(says, h.called(at)+" is a replica: it does not know who listens, and ends no hold.")
		}
	}
	return says
}

// why says why nothing new is known of a master, and what to do about it where that is clear.
func (h *Handler) why(at int, o outage) string {
	text := said(o.err, 300) + remedy(o.err)
	if answered(o.err) {
		return fmt.Sprintf("%s has refused since %s: %s", h.called(at), clock(o.since), text)
	}
	return fmt.Sprintf("No answer from %s since %s: %s", h.called(at), clock(o.since), text)
}

// remedy is what to do about an error, empty where it says so itself or nobody knows.
func remedy(err error) string {
	switch {
	case lua.IsDenied(err):
		return "; give this user of Redis the permission: docs/security.md has all that are needed"
	case lua.AuthProblemOf(err) != lua.AuthFine:
		return "; whoever runs this page gives its client of Redis the user and the password"
	}
	return ""
}

// called is what a master is called for people.
func (h *Handler) called(at int) string {
	if len(h.names) > 0 {
		return h.names[at]
	}
	return "Redis"
}

// clock is a time of day, of this machine.
func clock(t time.Time) string { return t.Format("15:04:05") }
