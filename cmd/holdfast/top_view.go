package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// stale is from which age on a row is shown as old.
const stale = 10 * time.Second

// sideBySide is from which width on a lock is shown beside the list; else it takes the list's place.
const (
	sideBySide = 120
	paneWidth  = 60
)

// View is part of [tea.Model].
func (m *topModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// lines are the screen, none of them wider than it, and no more of them than it has.
func (m *topModel) lines() []string {
	var all []string
	m.fitOwners(m.rows[m.offset:min(m.offset+m.bodyHeight(), len(m.rows))])
	all = append(all, m.head()...)
	body := m.body()
	foot := m.foot()
	for room := m.height - len(all) - len(foot); len(body) < room; {
		body = append(body, "")
	}
	all = append(append(all, body...), foot...)
	if len(all) > m.height {
		all = all[:m.height]
	}
	for i, line := range all {
		all[i] = endCut(line, m.width)
	}
	return all
}

// headHeight is how many lines there are above the rows: on a low screen, or above the help, one.
func (m *topModel) headHeight() int {
	if m.height < 8 || m.mode == helping {
		return 1
	}
	return 3
}

// bodyHeight is how many rows there is room for.
func (m *topModel) bodyHeight() int {
	return max(m.height-m.headHeight()-len(m.foot()), 1)
}

func (m *topModel) head() []string {
	columns := m.paint(bold, m.cells(nil))
	switch {
	case m.mode == helping:
		columns = m.paint(bold, "Keys") + m.paint(dim, "   any key goes back to the list")
	case m.detail != nil && m.width < sideBySide:
		columns = m.paint(dim, "esc goes back to the list; ↑ ↓ show the lock before, the next one")
	}
	if m.headHeight() == 1 {
		return []string{columns}
	}
	left := m.paint(bold, "holdfast top") + "  " + visible(m.String())
	if m.query != "" {
		left += "  " + visible(m.query)
	}
	right := m.now.Format("15:04:05")
	if m.desk.paused.Load() {
		right = m.paint(yellow, "paused") + "  " + right
	}
	if m.readOnly {
		right = "read-only  " + right
	}
	return []string{m.apart(left, right), m.apart(m.counts(), m.freshness()), columns}
}

// apart puts two texts at the two ends of a line. The right one is whole, as long as there is room.
func (m *topModel) apart(left, right string) string {
	room := m.width - ansi.StringWidth(right) - 2
	if room < 10 {
		return left
	}
	left = endCut(left, room)
	return left + strings.Repeat(" ", m.width-ansi.StringWidth(left)-ansi.StringWidth(right)) + right
}

func (m *topModel) counts() string {
	text := plural(m.known, "lock")
	if m.filter != "" {
		text = fmt.Sprintf("%d of %s with %s", len(m.rows), text, m.paint(bold, visible(m.filter)))
	}
	text += fmt.Sprintf(", %d waited for", m.waited)
	if m.bad > 0 {
		text += ", " + m.paint(yellow, fmt.Sprintf("%d wrong", m.bad))
	}
	if m.status.Left > 0 {
		text += fmt.Sprintf(", %d more left out", m.status.Left)
	}
	return text
}

// freshness is how old the list of names is, and what all this costs the server.
func (m *topModel) freshness() string {
	var text string
	switch st := m.status; {
	case st.Listed.IsZero() && st.Progress >= 0:
		text = fmt.Sprintf("finding names: %d%%", int(st.Progress*100))
	case st.Listed.IsZero():
		text = "finding names"
	default:
		text = "names " + short(m.now.Sub(st.Listed)) + " old"
		if st.Progress > 0 && m.now.Sub(st.Listed) > stale {
			text += fmt.Sprintf(", next %d%%", int(st.Progress*100))
		}
	}
	if n := len(m.status.Missing); n > 0 && len(m.addresses) > 1 {
		masters := make([]string, n)
		for i, at := range m.status.Missing {
			masters[i] = strconv.Itoa(at + 1)
		}
		text += ", " + m.paint(yellow, "missing: master "+strings.Join(masters, ", "))
	}
	if taken, ok := m.taken(); ok {
		text += fmt.Sprintf("  takes %.2f%%", taken*100)
	}
	return text
}

// taken is the part of the servers' time that was spent, from the beginning on.
func (m *topModel) taken() (float64, bool) {
	const enough = 10 * time.Second // what was saved up for the beginning says nothing of the rest
	since := m.now.Sub(m.status.Since)
	return m.status.Spent.Seconds() / since.Seconds(), since > enough
}

func (m *topModel) body() []string {
	room := m.height - m.headHeight() - len(m.foot())
	switch {
	case m.mode == helping:
		return clip(m.help(), room)
	case m.detail != nil && m.width < sideBySide:
		return clip(m.detail.lines(m.width, m.table.colour), room)
	}
	var lines []string
	for i, r := range m.rows[m.offset:min(m.offset+max(room, 0), len(m.rows))] {
		lines = append(lines, m.row(r, m.offset+i == m.cursor))
	}
	if len(m.rows) == 0 {
		lines = clip(m.empty(), room)
	}
	if m.detail != nil {
		lines = m.joinColumns(lines, clip(m.detail.lines(paneWidth, m.table.colour), room))
	}
	return lines
}

// joinColumns puts the pane to the right of the list.
func (m *topModel) joinColumns(list, pane []string) []string {
	left := m.listWidth()
	for len(list) < len(pane) {
		list = append(list, "")
	}
	for i := range list {
		list[i] = endCut(list[i], left)
		if i < len(pane) {
			list[i] += strings.Repeat(" ", left-ansi.StringWidth(list[i])) + m.paint(dim, " │ ") + pane[i]
		}
	}
	return list
}

// listWidth is what the list has of the screen.
func (m *topModel) listWidth() int {
	if m.detail != nil && m.width >= sideBySide {
		return m.width - paneWidth - 3
	}
	return m.width
}

func (m *topModel) empty() []string {
	switch {
	case m.filter != "" && m.known > 0:
		return wrap("No name fits "+visible(m.filter)+". Esc clears the filter.", m.width)
	case m.status.Listed.IsZero():
		return []string{"Looking for locks…"}
	}
	return wrap(noLocks(m.query, false), m.width)
}

// foot is what was said last, or asked, or what keys there are.
func (m *topModel) foot() []string {
	switch {
	case m.mode == typing:
		return []string{m.paint(bold, "filter: ") + visible(m.typed) + "▏  " + m.paint(dim, "a part of the name, or a pattern: * ? [ab]   enter, esc")}
	case m.mode == asking:
		lines := m.question.lines(m.width)
		lines = lines[max(len(lines)-max(m.height-1, 1), 0):]
		for i := range lines {
			lines[i] = m.paint(yellow, lines[i])
		}
		return lines
	case m.note != "":
		return wrap(m.note, m.width)
	case m.status.Err != nil:
		return []string{m.paint(red, endCut("asking again: "+m.fault(), m.width))}
	}
	return []string{m.keysBar()}
}

// fault is why a server did not answer: the cause comes first, as the end may be cut.
func (m *topModel) fault() string {
	at := m.at(m.status.At)
	if cause := networkCause(m.status.Err); cause != "" {
		return printable.Line(cause + "; no answer from Redis at " + at.String())
	}
	return printable.Line(at.explain(m.status.Err).Error())
}

// keysBar has as many keys as there is room for.
func (m *topModel) keysBar() string {
	last := "? help  q quit"
	line := ""
	for _, key := range []string{"↑↓ move", "enter inspect", "s sort", "/ filter", "x end a hold", "space pause"} {
		if key[0] == 'x' && m.readOnly {
			continue
		}
		if ansi.StringWidth(line+key+"  "+last) > m.width {
			break
		}
		line += key + "  "
	}
	return m.paint(dim, line+last)
}

func (m *topModel) help() []string {
	lines := []string{
		"  ↑ ↓ k j   pgup pgdown   home end    move; the cursor stays with its lock",
		"  enter i   show all of a lock        esc   close that; clear the filter",
		"  s S       the next order, the last  r     the other way round",
	}
	for _, o := range orders {
		lines = append(lines, fmt.Sprintf("  %s         %-9s %s", o.key, o.name, o.about))
	}
	return append(lines,
		"  /         only what has this in its name, or fits a pattern: * ? [ab]",
		"  x         end a hold: shows the owner and the token, and asks",
		"  space     ask the servers nothing, or go on          q ctrl+c   quit",
		m.paint(bold, "Columns"),
		"  HELD      since the grant. unlocked: stays taken until LEFT is over",
		"  LEFT      of the lease; of a latch until it opens by itself",
		"  WAIT      places in the queue; ~2: connections that listen; ?: not known",
		"  GRANTS    a second, at least; ~ is a guess, where they come faster than looks",
		"  !         looks wrong: enter says why. A dim row was not looked at lately",
	)
}

// clip leaves out what there is no room for, and says so in the last line.
func clip(lines []string, n int) []string {
	if n = max(n, 0); n == 0 || len(lines) <= n {
		return lines[:min(n, len(lines))]
	}
	return append(slices.Clone(lines[:n-1]), fmt.Sprintf("… %d more lines", len(lines)-n+1))
}

func (m *topModel) paint(code, text string) string { return m.table.paint(code, text) }

// row is a line of the list.
func (m *topModel) row(r *live.Row, chosen bool) string {
	line := m.cells(r)
	mark := "  "
	if chosen {
		mark = "▸ "
	}
	if len(r.Lock.Problems) > 0 {
		mark = mark[:len(mark)-1] + "!"
	}
	line = mark + line[2:]
	switch {
	case chosen:
		return m.paint(inverse, line)
	case len(r.Lock.Problems) > 0:
		return m.paint(yellow, line)
	case m.now.Sub(r.Seen) > stale:
		return m.paint(dim, line)
	case r.Waiting() > 0:
		return m.paint(bold, line)
	}
	return line
}
