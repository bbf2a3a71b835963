package main

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/inspect"
)

const inverse = "7"

// column is one of the list. Of a narrow screen it is the less important ones that are left out.
type column struct {
	head  string
	order string // of orders: which one it shows
	width int    // with the space behind it
	from  int    // how wide the list must be
	right bool
	cell  func(m *topModel, r *live.Row) string
}

// The name comes first, and has what the others leave.
var topColumns = []column{
	{"KIND", "", kindWidth, 72, false, func(_ *topModel, r *live.Row) string { return string(r.Lock.Kind) }},
	{"OWNER", "", shortOwner, 56, false, func(m *topModel, r *live.Row) string { return m.table.ownerOf(&r.Lock) }},
	{"HELD", "oldest", timeWidth + 1, 36, true, func(_ *topModel, r *live.Row) string { return held(&r.Lock) }},
	{"LEFT", "left", timeWidth, 64, true, func(_ *topModel, r *live.Row) string { return rest(&r.Lock) }},
	{"WAIT", "waiters", waitWidth, 20, true, func(_ *topModel, r *live.Row) string { return waiting(&r.Lock) }},
	{"GRANTS", "grants", 8, 44, true, func(_ *topModel, r *live.Row) string { return r.Rate.String() }},
	{"TOKEN", "", tokenWidth, 150, true, func(_ *topModel, r *live.Row) string { return tokenOf(&r.Lock) }},
	{"SEEN", "", 7, 110, true, func(m *topModel, r *live.Row) string { return short(max(m.now.Sub(r.Seen), 0)) }},
	{"PROBLEMS", "problems", noteWidth, 130, false, func(_ *topModel, r *live.Row) string {
		return strings.Join(troubles(&r.Lock), ",")
	}},
}

// held is since when a lock is held: a holder that has unlocked does nothing under it any more.
func held(l *inspect.Lock) string {
	if unlocked(l) {
		return "unlocked"
	}
	return since(l)
}

// cells are a row without its mark; nil: the heads of the columns.
func (m *topModel) cells(r *live.Row) string {
	width := m.listWidth()
	if m.table.width, m.table.wide = width, width >= 140; m.whole {
		m.table.width, m.table.wide = 0, true
	}
	rest := width - 2
	var shown []column
	for _, c := range topColumns {
		if width >= c.from {
			shown = append(shown, c)
			rest -= c.width
		}
	}
	for i := range shown {
		if c := &shown[i]; c.head == "OWNER" {
			both := rest + c.width
			m.table.owner = m.table.ownerWidth(both)
			c.width = m.fitted(m.table.owner)
			rest = both - c.width
		}
	}
	name := max(rest, 8)
	text := m.cell(column{head: "NAME", order: "name", cell: func(m *topModel, r *live.Row) string { return m.name(r) }}, r, name-1)
	if m.whole && r != nil {
		text = m.name(r)
	}
	line := "  " + pad(text, name)
	for _, c := range shown {
		text := m.cell(c, r, c.width-1)
		if m.whole && r != nil && c.head == "OWNER" {
			text = c.cell(m, r)
		}
		if c.right {
			text = strings.Repeat(" ", max(c.width-1-ansi.StringWidth(text), 0)) + text
		}
		line += pad(text, c.width)
	}
	if m.whole {
		return line
	}
	return endCut(line, width)
}

// fitOwners notes how wide the owners of some rows are: their column takes no more, and names have what it leaves.
func (m *topModel) fitOwners(rows []*live.Row) {
	m.widest = 0
	m.cells(nil) // which notes how much of an owner is shown
	for _, r := range rows {
		m.widest = max(m.widest, ansi.StringWidth(m.table.ownerOf(&r.Lock)))
	}
}

// fitted is the width of the column of owners, which has a share of the room.
func (m *topModel) fitted(share int) int {
	switch {
	case m.whole: // what is longer moves the rest of its row
		return min(max(m.widest+1, longOwner), 2*longOwner)
	case m.widest > 0:
		return min(max(m.widest+1, shortOwner), share)
	}
	return share
}

// name is with its server, where there are several.
func (m *topModel) name(r *live.Row) string {
	if len(m.addresses) > 1 {
		return ofMaster(r.Server+1, visible(r.Name))
	}
	return visible(r.Name)
}

func (m *topModel) cell(c column, r *live.Row, width int) string {
	switch {
	case r != nil && c.right: // the end of a number says nothing without its middle
		return ansi.Truncate(c.cell(m, r), width, "…")
	case r != nil:
		return middleCut(c.cell(m, r), width)
	}
	if c.order != "" && c.order == orders[m.order].name {
		if m.reverse {
			return c.head + "▴"
		}
		return c.head + "▾"
	}
	return c.head
}

// mostName is up to how many columns a name widens all rows of a list that is no terminal's. A longer name moves
// the rest of its own row, as in "ls".
const mostName = 40

// fullWidth is what a list takes where there is no terminal.
func (m *topModel) fullWidth(rows []*live.Row) int {
	width := 0
	for _, c := range topColumns {
		width = max(width, c.from)
	}
	others := m.fitted(0) - shortOwner
	for _, c := range topColumns {
		others += c.width
	}
	for _, r := range rows {
		width = max(width, others+3+min(ansi.StringWidth(m.name(r)), mostName))
	}
	return width
}
