package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// table prints locks as they come, a line each. So the widths of its columns do not depend on what is
// in them: on a terminal names are cut to what there is room for, and elsewhere nothing is cut.
type table struct {
	*screen
	width             int  // of the terminal; 0: it is none
	wide              bool // there is room for all of an owner, and the token
	name, owner       int  // columns of a name, and of an owner
	masters           bool // of several: each line says which one
	master            int  // the one whose locks are added, from 1 on
	locks, bad, waits int
}

// The widths of the columns, with the space behind them.
const (
	kindWidth, shortOwner, longOwner, timeWidth, waitWidth, tokenWidth, noteWidth = 10, 15, 48, 8, 6, 17, 14
)

func newTable(out io.Writer, masters bool) *table {
	return sizedTable(out, terminalWidth(out), masters)
}

func sizedTable(out io.Writer, width int, masters bool) *table {
	t := &table{screen: newScreen(out), width: width, masters: masters}
	t.wide = t.width == 0 || t.width >= 140
	rest := kindWidth + 2*timeWidth + waitWidth + noteWidth
	switch {
	case t.wide:
		rest += tokenWidth + min((width-140)/2, noteWidth)
	case width < 100:
		rest -= noteWidth - len("unlocked") // what is longer is cut at its end
	}
	if t.name, t.owner = 40, longOwner; t.width > 0 {
		t.owner = t.ownerWidth(t.width - rest)
		t.name = max(t.width-rest-t.owner, 16)
	}
	return t
}

// ownerWidth is what an owner has of the columns that names and owners share: half of them, if it is not whole.
func (t *table) ownerWidth(both int) int {
	if t.wide {
		return max(both/2, longOwner)
	}
	return min(max(both/2, shortOwner), longOwner)
}

func (t *table) add(l *inspect.Lock) error {
	if t.locks == 0 {
		if err := t.row(bold, "NAME", "KIND", "OWNER", "HELD", "LEFT", "WAIT", "TOKEN", ""); err != nil {
			return err
		}
	}
	t.locks++
	if n, _ := l.Waiting(); n > 0 {
		t.waits++
	}
	note := notes(l)
	colour := ""
	if len(l.Problems) > 0 {
		t.bad++
		colour = yellow
	}
	name := visible(l.Name)
	switch {
	case t.masters && t.width > 0: // an address would be cut
		name = ofMaster(t.master, name)
	case t.masters:
		note = append(note, "at "+l.Server)
	}
	return t.row(colour, t.cut(name, t.name-1), string(l.Kind), t.ownerOf(l), since(l), rest(l), waiting(l), tokenOf(l), strings.Join(note, ","))
}

// ofMaster is a name at one of several masters, which are numbered as --redis has them.
func ofMaster(n int, name string) string { return strconv.Itoa(n) + "/" + name }

// notes are what is to be said of a lock in a word each: what looks wrong, and that nobody works under it any more.
func notes(l *inspect.Lock) (all []string) {
	if unlocked(l) {
		all = append(all, "unlocked")
	}
	return append(all, troubles(l)...)
}

// troubles are what looks wrong, in a word each.
func troubles(l *inspect.Lock) (all []string) {
	for _, p := range l.Problems {
		all = append(all, string(p.Trouble))
	}
	return all
}

// unlocked: a holder has unlocked, and the lock stays taken for the rest of its HoldAtLeast.
func unlocked(l *inspect.Lock) bool {
	return slices.ContainsFunc(l.Holders, func(h inspect.Holder) bool { return h.Left })
}

func (t *table) row(colour, name, kind, owner, since, left, wait, token, note string) error {
	line := pad(name, t.name) + pad(kind, kindWidth)
	line += pad(t.cut(owner, t.owner-1), t.owner)
	line += pad(since, timeWidth) + pad(left, timeWidth) + pad(wait, waitWidth)
	if t.wide {
		line += pad(token, tokenWidth)
	}
	line = strings.TrimRight(line+note, " ")
	if t.width > 0 {
		line = endCut(line, t.width)
	}
	if colour != "" {
		line = t.paint(colour, line)
	}
	_, err := fmt.Fprintln(t.out, line)
	return err
}

// end says what the list amounts to, where people read it.
func (t *table) end(stderr io.Writer, q *inspect.Query) {
	if t.width == 0 && t.locks > 0 {
		return
	}
	text := fmt.Sprintf("%s, %d waited for.", plural(t.locks, "lock"), t.waits)
	switch {
	case t.locks == 0:
		text = noLocks(q.Match, q.Contended) + further(q)
	case t.bad > 0:
		look := "look"
		if t.bad == 1 {
			look = "looks"
		}
		text = fmt.Sprintf("%s, %d waited for, %d %s wrong: \"holdfast inspect NAME\" says why.", plural(t.locks, "lock"), t.waits, t.bad, look)
	}
	fmt.Fprintln(stderr, wrapped(text, t.width))
}

// noLocks is what stands for an empty list: of all locks, or of those that are waited for.
func noLocks(pattern string, waited bool) string {
	switch {
	case waited && pattern == "":
		return "No locks waited for."
	case waited:
		return "No locks that match " + printable.Quote(pattern) + " are waited for."
	case pattern == "":
		return "No locks held or waited for."
	}
	return "No locks match " + printable.Quote(pattern) + "."
}

// further are the flags that may find more.
func further(q *inspect.Query) string {
	switch {
	case q.Contended:
		return ` "holdfast ls" shows those that are held.`
	case q.Free && q.Redisson:
		return ""
	case q.Free:
		return ` "holdfast ls --redisson" shows those of Redisson alone.`
	case q.Redisson:
		return ` "holdfast ls --all" shows those of the last hour.`
	}
	return ` "holdfast ls --all" shows those of the last hour, --redisson those of Redisson alone.`
}

// ownerOf is who has a lock, or what stands for that.
func (t *table) ownerOf(l *inspect.Lock) string {
	switch {
	case l.Kind == inspect.Latch:
		return strconv.FormatInt(l.Count, 10) + " to count"
	case len(l.Holders) == 0:
		return "-"
	}
	h := l.Holders[0]
	text := visible(h.Owner)
	if id, number, ok := strings.Cut(text, ":"); ok && !t.wide && len(id) == 36 {
		text = id[:8] + ":" + number
	}
	if h.Label != "" {
		text = visible(h.Label)
	}
	if n := len(l.Holders); n > 1 {
		more := fmt.Sprintf(" +%d", n-1)
		if l.More {
			more += "…"
		}
		text = t.cut(text, t.owner-1-ansi.StringWidth(more)) + more
	}
	return text
}

func since(l *inspect.Lock) string {
	if granted := l.Granted(); !granted.IsZero() {
		return short(l.At.Sub(granted))
	}
	return "-"
}

// rest is what is left of a lock, as the list shows it.
func rest(l *inspect.Lock) string {
	switch {
	case (l.Type == "none" || l.Type == "") && len(l.Holders) == 0: // there is no key, or none that may be seen
		return "-"
	case remaining(l) < 0:
		return "no end"
	}
	return short(remaining(l))
}

// remaining is what is left of the first holder's lease, or of the key if nobody has the lock. (The key of a semaphore
// outlives its permits by far.)
func remaining(l *inspect.Lock) time.Duration {
	if len(l.Holders) > 0 {
		return l.Holders[0].Remaining
	}
	return l.Remaining
}

// waiting is how many wait: about so many, if all that is known is how many connections listen.
func waiting(l *inspect.Lock) string {
	switch n, about := l.Waiting(); {
	case n < 0:
		return "?"
	case about:
		return "~" + strconv.Itoa(n)
	default:
		return strconv.Itoa(n)
	}
}

func tokenOf(l *inspect.Lock) string {
	if l.Token == 0 {
		return "-"
	}
	return strconv.FormatUint(l.Token, 10)
}

// short is a length of time in at most seven columns.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d > 99*365*24*time.Hour:
		return "no end"
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// visible is a text of somebody else's as it may be shown: what would move the cursor, or colour the
// rest, is spelled out.
func visible(text string) string {
	return printable.Text(text, printable.Long)
}

// cut takes out the middle of what is too long for a terminal: names differ at their ends.
func (t *table) cut(text string, width int) string {
	if t.width == 0 {
		return text
	}
	return middleCut(text, width)
}

// middleCut is a text in so many columns at most, which for some scripts are half as many characters.
func middleCut(text string, width int) string {
	n := ansi.StringWidth(text)
	if n <= width {
		return text
	}
	front := max((width-1)/2, 0)
	back := max(width-1-front, 0)
	end := ansi.TruncateLeft(text, n-back, "")
	if ansi.StringWidth(end) > back { // the cut went through a wide character, which was kept
		end = ansi.TruncateLeft(text, n-back+1, "")
	}
	start := endOff(text, front)
	for _, at := range spelledForm.FindAllStringIndex(text, -1) { // half of one says something else
		if from := len(text) - len(end); at[0] < from && from < at[1] {
			end = text[at[1]:]
		}
	}
	return start + "…" + end
}

// endCut takes out the end of what is too long. A text with colours is one, too.
func endCut(text string, width int) string {
	if ansi.StringWidth(text) <= width {
		return text
	}
	kept := ansi.StringWidth(endOff(ansi.Strip(text), width-1))
	return ansi.Truncate(text, min(kept+1, width), "…")
}

// endOff is the beginning of a text in so many columns. It ends with no half of what is spelled out.
func endOff(text string, width int) string {
	start := ansi.Truncate(text, width, "")
	for _, at := range spelledForm.FindAllStringIndex(text, -1) {
		if at[0] < len(start) && len(start) < at[1] {
			return text[:at[0]]
		}
	}
	return start
}

// spelledForm is what a character that is not shown is spelled as.
var spelledForm = regexp.MustCompile(`\\(?:x[0-9a-f]{2}|.)`)

func pad(text string, width int) string {
	if n := ansi.StringWidth(text); n < width {
		return text + strings.Repeat(" ", width-n)
	}
	return text + " "
}
