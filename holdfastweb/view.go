package holdfastweb

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/inspect"
)

// view is what of the list somebody wants to see. All of it stands in the address of the page.
type view struct {
	viewKey
	page int // from 1
}

// kinds are those that a list may have, in the order of the filter.
var kinds = []inspect.Kind{
	inspect.Plain, inspect.Fair, inspect.ReadWrite, inspect.Semaphore, inspect.Latch, inspect.Election, inspect.Foreign,
}

// maxMatch is how long a filter may be: a glob of many stars takes its time.
const maxMatch = 200

// viewOf reads an address. What it does not know is left at its default, so that any address shows
// something.
func viewOf(q url.Values) view {
	v := view{page: 1}
	if v.match = strings.TrimSpace(q.Get("match")); len(v.match) > maxMatch {
		most := maxMatch
		for most > maxMatch-utf8.UTFMax && !utf8.RuneStart(v.match[most]) { // between characters
			most--
		}
		v.match = v.match[:most]
	}
	for _, k := range kinds {
		if q.Get("kind") == string(k) {
			v.kind = string(k)
		}
	}
	if s := q.Get("show"); s == showWaited || s == showWrong {
		v.show = s
	}
	sort, down := strings.CutPrefix(q.Get("sort"), "-")
	if v.sort = defaultSort; orders[sort] != nil && sort != defaultSort {
		v.sort, v.down = sort, down
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n > 1 {
		v.page = n
	}
	return v
}

// query is the address of a view, without what is default.
func (v view) query() string {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("match", v.match)
	set("kind", v.kind)
	set("show", v.show)
	if v.sort != defaultSort {
		set("sort", v.order())
	}
	if v.page > 1 {
		q.Set("page", strconv.Itoa(v.page))
	}
	return q.Encode()
}

// order is the value of sort.
func (v view) order() string {
	if v.down {
		return "-" + v.sort
	}
	return v.sort
}

// link is relative to the page, so that it works below any path.
func (v view) link() string {
	if q := v.query(); q != "" {
		return "?" + q
	}
	return "./"
}

func (v view) at(page int) view {
	v.page = page
	return v
}

// sorted is the view in the order of a column, or the other way round if it is that already.
func (v view) sorted(by string) view {
	v.down = v.sort == by && !v.down
	v.sort, v.page = by, 1
	return v
}

// maxLink is how long a name may be of which there is a link. Servers and proxies refuse long addresses.
const maxLink = 1500

// linkTo is the address of a lock's page, empty if its name is too long for one.
func linkTo(name string) string {
	if len(name) > maxLink {
		return ""
	}
	return "lock?" + url.Values{"name": {name}}.Encode()
}

// part is a hold at one master: that of a grant, where the token says which.
type part struct {
	at    int
	token uint64 // 0: the owner says it all
}

// hold is what somebody wants to end: what an owner has at some masters.
type hold struct {
	name, owner string
	parts       []part
}

// link is relative to the page. All of it stands in the address, because a browser changes line ends in
// the fields of a form, and what is no character everywhere else.
func (h hold) link() string {
	if len(h.name) > maxLink || len(h.owner) > maxLink {
		return ""
	}
	q := url.Values{"name": {h.name}, "owner": {h.owner}}
	for _, p := range h.parts {
		text := strconv.Itoa(p.at)
		if p.token != 0 {
			text += ":" + strconv.FormatUint(p.token, 10)
		}
		q.Add("part", text)
	}
	return "end?" + q.Encode()
}

// holdOf reads an address, and is not ok if something is missing.
func holdOf(q url.Values, masters int) (h hold, ok bool) {
	h = hold{name: q.Get("name"), owner: q.Get("owner")}
	for _, text := range q["part"] {
		number, token, pinned := strings.Cut(text, ":")
		at, err := strconv.Atoi(number)
		p := part{at: at}
		if err == nil && pinned {
			p.token, err = strconv.ParseUint(token, 10, 64)
		}
		if err != nil || at < 0 || at >= masters || pinned && p.token == 0 || len(h.parts) >= masters {
			return h, false
		}
		h.parts = append(h.parts, p)
	}
	return h, h.name != "" && h.owner != "" && len(h.parts) > 0
}
