package main

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
)

// what the keys are for at the moment.
type topMode int

const (
	listing topMode = iota
	typing          // a filter
	asking          // whether a hold is to be ended
	helping
)

// topModel is what is on the screen. It belongs to the loop of the library for screens.
type topModel struct {
	topConfig
	desk          *desk
	table         *table // for its cells
	width, height int
	whole         bool // no name and no owner is cut: this is no terminal
	widest        int  // columns of an owner of those that are shown; 0: not known

	rows     []*live.Row // that fit the filter, in their order
	known    int         // all
	waited   int         // of all: for which somebody waits
	bad      int         // of all: that look wrong
	version  int         // of the picture that rows are from
	status   live.Status
	now      time.Time
	order    int // in orders
	reverse  bool
	filter   string
	typed    string // a filter that is not complete
	cursor   int
	selected live.Key // what the cursor is on; it goes where that goes, once the user has moved it
	follows  bool
	offset   int
	mode     topMode
	detail   *detail
	question *question
	note     string // what came of the last question
}

func newTopModel(c topConfig, d *desk) *topModel {
	m := &topModel{topConfig: c, desk: d, now: time.Now(), table: sizedTable(c.out, columns, false), width: columns, height: 24}
	m.order, _ = orderNamed(c.sort)
	m.note = c.note()
	return m
}

// heardNothing is a row of a replica, in a copy: the picture keeps its own.
func heardNothing(r *live.Row) *live.Row {
	own := *r
	own.Lock = own.Lock.AtReplica()
	return &own
}

// Init is part of [tea.Model].
func (m *topModel) Init() tea.Cmd { return nil }

// Update is part of [tea.Model].
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	moved := false
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
		moved = true
	case refreshMsg:
		m.now = time.Now()
		m.refresh(false)
		if m.detail != nil && !m.desk.paused.Load() {
			m.inspect(m.detail.key)
		}
	case *detail:
		if m.detail != nil && m.detail.key == msg.key {
			m.detail = msg
		}
	case *question:
		if m.mode == listing {
			m.put(msg)
		}
	case ended:
		m.note = string(msg)
		moved = true // so it is looked at soon
	case tea.KeyPressMsg:
		cmd := m.press(msg)
		if cmd != nil {
			return m, cmd
		}
		moved = true
	}
	m.shown(moved)
	return m, nil
}

// refresh takes what there is, and sorts it.
func (m *topModel) refresh(anew bool) {
	m.status = m.desk.pic.Status()
	all, version := m.desk.pic.Rows()
	if version == m.version && !anew {
		return
	}
	m.version, m.known, m.waited, m.bad = version, len(all), 0, 0
	m.rows = m.rows[:0]
	for _, r := range all {
		if m.replicas[r.Server] {
			r = heardNothing(r)
		}
		if r.Waiting() > 0 {
			m.waited++
		}
		if len(r.Lock.Problems) > 0 {
			m.bad++
		}
		if fits(m.filter, r.Name) {
			m.rows = append(m.rows, r)
		}
	}
	sortRows(m.rows, orders[m.order], m.reverse)
	if m.follows {
		if at := slices.IndexFunc(m.rows, func(r *live.Row) bool { return r.Key == m.selected }); at >= 0 {
			m.cursor = at
		}
	}
	m.point()
}

// point keeps the cursor on a row.
func (m *topModel) point() {
	m.cursor = max(min(m.cursor, len(m.rows)-1), 0)
	if m.cursor < len(m.rows) {
		m.selected = m.rows[m.cursor].Key
	}
}

// shown moves the window of rows to where the cursor is, and has them looked at.
func (m *topModel) shown(soon bool) {
	n := m.bodyHeight()
	m.offset = max(min(m.offset, m.cursor, len(m.rows)-n), m.cursor-n+1, 0)
	var keys []live.Key
	for _, r := range m.rows[m.offset:min(m.offset+n, len(m.rows))] {
		keys = append(keys, r.Key)
	}
	m.desk.shows(keys, soon)
}

// press does what a key is for.
func (m *topModel) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.mode == typing:
		m.typing(key)
	case m.mode == asking:
		m.answer(name)
	case m.mode == helping:
		m.mode = listing
		if name == "q" {
			return tea.Quit
		}
	case name == "q":
		return tea.Quit
	default:
		m.note = ""
		if !m.move(name) && !m.sortBy(name) {
			m.command(name)
		}
	}
	return nil
}

func (m *topModel) move(name string) bool {
	page := max(m.bodyHeight()-1, 1)
	switch name {
	case "up", "k":
		m.cursor--
	case "down", "j":
		m.cursor++
	case "pgup", "ctrl+b":
		m.cursor -= page
	case "pgdown", "ctrl+f":
		m.cursor += page
	case "home":
		m.cursor = 0
	case "end":
		m.cursor = len(m.rows)
	default:
		return false
	}
	m.point()
	m.follows = m.cursor > 0
	if m.detail != nil && len(m.rows) > 0 {
		m.inspect(m.selected)
	}
	return true
}

func (m *topModel) sortBy(name string) bool {
	at := slices.IndexFunc(orders, func(o sorting) bool { return o.key == name })
	switch {
	case name == "s":
		m.order, m.reverse = (m.order+1)%len(orders), false
	case name == "S":
		m.order, m.reverse = (m.order+len(orders)-1)%len(orders), false
	case name == "r":
		m.reverse = !m.reverse
	case at >= 0:
		m.order, m.reverse = at, false
	default:
		return false
	}
	m.cursor, m.offset, m.follows = 0, 0, false
	m.refresh(true)
	return true
}

func (m *topModel) command(name string) {
	switch name {
	case "/":
		m.mode, m.typed = typing, m.filter
	case "enter", "i":
		if m.detail != nil {
			m.detail = nil
		} else if len(m.rows) > 0 {
			m.inspect(m.selected)
		}
	case "esc":
		switch {
		case m.detail != nil:
			m.detail = nil
		case m.filter != "":
			m.filter = ""
			m.refresh(true)
		}
	case "x":
		m.wantEnd()
	case "space":
		m.desk.pause(!m.desk.paused.Load())
	case "?", "h":
		m.mode = helping
	}
}

// typing edits the filter.
func (m *topModel) typing(key tea.KeyPressMsg) {
	switch name := key.String(); {
	case name == "enter":
		m.filter, m.mode = m.typed, listing
		m.cursor, m.offset, m.follows = 0, 0, false
		m.refresh(true)
	case name == "esc":
		m.mode = listing
	case name == "ctrl+u":
		m.typed = ""
	case name == "backspace":
		_, n := utf8.DecodeLastRuneInString(m.typed)
		m.typed = m.typed[:len(m.typed)-n]
	case key.Text != "":
		m.typed += key.Text
	}
}

// asked runs a job of the user's, or says that there is one already.
func (m *topModel) asked(job func(context.Context) tea.Msg) {
	if !m.desk.do(job) && m.status.Err == nil {
		m.note = "the server has not answered the last question yet"
	}
}
