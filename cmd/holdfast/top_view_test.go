package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/live"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/grantrate"
	"github.com/holdfast-go/holdfast/internal/keys"
)

// odd are names and texts that others have chosen.
var odd = []string{"plain", "bad\x1b[31mred\x1b]0;title\a\nx\t", "設定ファイル:更新:東日本:本番環境:設定ファイル:更新:東日本", "\u202egnp.exe", "e\u0301e\u0301", "👩‍👩‍👧‍👦 family",
	strings.Repeat("a very long name ", 30), "\xff\xfe"}

// oddModel has a row for each of them.
func oddModel(t *testing.T) *topModel {
	t.Helper()
	pic, err := live.New(nil, live.Options{})
	require.NoError(t, err)
	c := topConfig{connection: connection{addresses: []address{newAddress("redis://:pw@h")}}, sort: "name", out: &bytes.Buffer{}, query: odd[1]}
	m := newTopModel(c, newDesk(pic, time.Second))
	m.now = time.Now()
	for n, name := range odd {
		l := inspect.Lock{
			Name: name, Kind: inspect.Semaphore, Type: "string", Token: 1795616221164511, Waiters: 123456, Remaining: time.Hour, Permits: &inspect.Permits{},
			Holders: []inspect.Holder{
				{Owner: "11111111-2222-4333-8444-555555555555:h12345", Remaining: 1<<63 - 1, Label: name}, {Owner: name},
			},
			Problems: []inspect.Problem{{Trouble: inspect.TwoSpellings, Text: strings.Repeat("long ", 50)}},
			Leader:   &inspect.Leader{Value: name},
		}
		m.rows = append(m.rows, &live.Row{Key: live.Key{Name: name}, Lock: l, Seen: m.now.Add(-time.Duration(n) * time.Minute),
			Rate: grantrate.Rate{PerSecond: 1e12 / 7, Known: true, Guessed: true}})
	}
	m.known, m.waited, m.bad = 12345678, 1234567, 12345
	m.status = live.Status{Listed: m.now.Add(-400 * 24 * time.Hour), Progress: 0.99, Since: m.now.Add(-time.Hour), Left: 123}
	m.point()
	return m
}

// TestTopFits: in every state and size there are as many lines as the screen has, none is wider, and no foreign text is obeyed.
func TestTopFits(t *testing.T) {
	states := map[string]func(m *topModel){
		"list":  func(*topModel) {},
		"empty": func(m *topModel) { m.rows, m.known = nil, 0 },
		"none":  func(m *topModel) { m.rows, m.filter = nil, odd[1] },
		"help":  func(m *topModel) { m.mode = helping },
		"type":  func(m *topModel) { m.mode, m.typed = typing, odd[1]+odd[2]+odd[6] },
		"ask": func(m *topModel) {
			m.mode, m.question = asking, &question{detail{m.rows[1].Key, &m.rows[1].Lock, nil}, 1}
		},
		"detail": func(m *topModel) { m.detail = &detail{m.rows[1].Key, &m.rows[1].Lock, nil} },
		"asking": func(m *topModel) { m.detail = &detail{key: m.rows[1].Key} },
		"fault":  func(m *topModel) { m.status.Err = errors.New(odd[1] + odd[6]) },
		"note":   func(m *topModel) { m.note = visible(odd[1]) + odd[6] },
		"colour": func(m *topModel) { m.table.colour = true },
		"last":   func(m *topModel) { m.cursor = len(m.rows) - 1; m.shown(false) },
	}
	for what, change := range states {
		for _, size := range [][2]int{{80, 24}, {160, 50}, {120, 30}, {119, 30}, {20, 5}, {40, 8}, {200, 3}, {3, 1}, {1, 1}, {72, 100}} {
			m := oddModel(t)
			m.width, m.height = size[0], size[1]
			change(m)
			lines := m.lines()
			require.Len(t, lines, size[1], "%s at %v", what, size)
			for _, line := range lines {
				require.LessOrEqual(t, ansi.StringWidth(line), size[0], "%s at %v: %q", what, size, line)
				plain := line
				if what == "colour" {
					plain = ansi.Strip(line)
				}
				require.Equal(t, -1, strings.IndexFunc(plain, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u202e' }), "%s at %v: %q", what, size, line)
				require.NotContains(t, line, "pw", "a password")
				require.NotContains(t, line, "to end it", "a command that may be cut off; a key ends it")
			}
		}
	}
}

// TestTopColumns: what a narrow list leaves out, and that the columns of all rows stand below each other.
func TestTopColumns(t *testing.T) {
	m := oddModel(t)
	for width, heads := range map[int]string{
		20: "NAME▾ WAIT", 40: "NAME▾ HELD WAIT", 80: "NAME▾ KIND OWNER HELD LEFT WAIT GRANTS",
		160: "NAME▾ KIND OWNER HELD LEFT WAIT GRANTS TOKEN SEEN PROBLEMS",
	} {
		m.width = width
		head := m.cells(nil)
		require.Equal(t, heads, strings.Join(strings.Fields(head), " "))
		before, _, found := strings.Cut(head, "WAIT")
		require.True(t, found)
		at := ansi.StringWidth(before)
		for _, r := range m.rows {
			require.Equal(t, "1234…", ansi.Cut(m.row(r, false), at-1, at+4), "%d: %q", width, m.row(r, false))
		}
	}
}

// TestTopSmall: at 80 columns and 20 lines the help is whole, and so is an owner's label of usual length. A holder that has
// unlocked is marked there, too.
func TestTopSmall(t *testing.T) {
	m := oddModel(t)
	m.width, m.height = 80, 20
	l := &m.rows[0].Lock
	l.Holders = []inspect.Holder{{Owner: "11111111-2222-4333-8444-555555555555:h1", Label: "ann@web[12] curl", Left: true}}
	require.Contains(t, m.row(m.rows[0], false), " ann@web[12] curl  unlocked ")
	l.Holders[0].Left = false
	require.NotContains(t, m.row(m.rows[0], false), "unlocked")
	m.mode = helping
	help := m.help()
	require.Contains(t, m.lines(), help[0])
	require.Contains(t, m.lines(), help[len(help)-1])
}

// TestTopOwners: the column of owners is as wide as the longest that is shown, up to its share. Without a terminal none is cut.
func TestTopOwners(t *testing.T) {
	m := oddModel(t)
	m.rows, m.offset = m.rows[:1], 0
	l, long := &m.rows[0].Lock, strings.Repeat("deploy@web-1", 5)+"x"
	width := func(label string, at int) int {
		m.width, m.height = at, 20
		l.Holders = []inspect.Holder{{Owner: "11111111-2222-4333-8444-555555555555:h1", Label: label}}
		head := m.lines()[2]
		return strings.Index(head, "HELD") - strings.Index(head, "OWNER")
	}
	for _, at := range []int{80, 140, 160} {
		require.Greater(t, width(long, at), width("a@b", at))
		require.Equal(t, width("a@b", at), width("c", at))
		require.Contains(t, m.lines()[3], " c ")
	}
	require.Contains(t, func() string { width("ann@web-1[904] backup.sh", 160); return m.lines()[3] }(), "ann@web-1[904] backup.sh")
	l.Holders[0].Label = long
	m.whole = true
	m.fitOwners(m.rows)
	m.width = m.fullWidth(m.rows)
	row := m.row(m.rows[0], false)
	require.Contains(t, row, long)
	before, _, _ := strings.Cut(m.cells(nil), "TOKEN")
	at := ansi.StringWidth(before)
	require.Equal(t, "1795616221164511", ansi.Cut(row, at-11, at+5), "it is under its head")
}

// TestTopFault: at 80 columns the cause of an outage and the address are there, the address once.
func TestTopFault(t *testing.T) {
	m := oddModel(t)
	m.addresses = []address{newAddress("redis://127.0.0.1:21005")}
	_, err := net.Dial("tcp", "127.0.0.1:1")
	m.addresses[0] = newAddress("redis://127.0.0.1:1")
	m.status.Err = err
	m.width = 80
	require.Equal(t, []string{"asking again: connection refused; no answer from Redis at redis://127.0.0.1:1"}, m.foot())
	require.Equal(t, 1, strings.Count(m.explain(err).Error(), "127.0.0.1:1"))
	require.Contains(t, m.explain(err).Error(), "no answer from Redis at redis://127.0.0.1:1: connect: connection refused; is it running")
}

// TestTopKeys: a key without a meaning does nothing, and none of them fails where there is no row.
func TestTopKeys(t *testing.T) {
	m := oddModel(t)
	m.rows = nil
	for _, r := range "jkwoglpnsSrix?h?/ \x00ü" {
		m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	for _, code := range namedKeys {
		m.Update(tea.KeyPressMsg{Code: code})
	}
	require.Nil(t, m.question)
	_, cmd := m.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	require.IsType(t, tea.QuitMsg{}, cmd())
}

// TestTopFrames: without a terminal there are documents, or one table.
func TestTopFrames(t *testing.T) {
	srv, holds := contended(t)
	code, stdout, stderr := ask(srv, "top", "--once", "--every", "200ms")
	require.Zero(t, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 4)
	require.Contains(t, lines[0], "WAIT▾")
	require.Contains(t, lines[1], "busy")
	require.Contains(t, lines[2], holds["idle"].Owner(), "nothing is cut")
	require.NotContains(t, stdout, "\x1b")
	code, stdout, stderr = ask(srv, "top", "--once", "--every", "200ms", "nope*")
	require.Zero(t, code)
	require.Equal(t, []string{"", "No locks match \"nope*\".\n"}, []string{stdout, stderr}, "no header above nothing")

	rdb, long := srv.Client(t), "e"+strings.Repeat("\u0301", 3000)
	require.NoError(t, rdb.HSet(t.Context(), long, holds["busy"].Owner(), 1).Err())
	require.NoError(t, rdb.Set(t.Context(), keys.For(long).Token, holds["busy"].Token(), 0).Err())
	_, stdout, _ = ask(srv, "top", "--once", "--every", "200ms")
	wide := 0
	for line := range strings.Lines(stdout) {
		if utf8.RuneCountInString(line) > 200 {
			wide++
			require.Contains(t, line, "no-end", "it has its other columns, too")
		}
	}
	require.Equal(t, 1, wide, "a long name widens its own row alone")
	require.NoError(t, rdb.Del(t.Context(), long, keys.For(long).Token).Err())

	code, stdout, stderr = ask(srv, "top", "--once", "--json", "--every", "200ms", "--rows", "1", "[bi]*")
	require.Zero(t, code, stderr)
	lines = strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 2)
	var head frameDocument
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &head))
	require.Equal(t, []int{1, 2, 1}, []int{head.Frame, head.Locks, head.Waited})
	require.NotNil(t, head.Listed)
	var row topDocument
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &row))
	require.Equal(t, "busy", row.Name)
	require.Equal(t, 1, *row.Waiters)
	require.NotNil(t, row.Grants)
	require.Zero(t, *row.Grants)
	require.Equal(t, fmt.Sprint(holds["busy"].Token()), row.Token)
}
