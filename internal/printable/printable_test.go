package printable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/internal/testkit/hostile"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestForms: what is spelled out, and how; what is harmless stays as it is.
func TestForms(t *testing.T) {
	for text, want := range map[string][3]string{
		"orders:42":               {"orders:42", `"orders:42"`, "orders:42"},
		"設定 é e\u0301":            {"設定 é e\u0301", "\"設定 é e\u0301\"", "設定 é e\u0301"},
		`say "a\b"`:               {`say "a\b"`, `"say \"a\\b\""`, `say "a\b"`},
		"a\nb\tc":                 {`"a\nb\tc"`, `"a\nb\tc"`, "a; b c"},
		"a\n\n\tb\r\n":            {`"a\n\n\tb\r\n"`, `"a\n\n\tb\r\n"`, "a; b"},
		"\x1b[2J":                 {`"\x1b[2J"`, `"\x1b[2J"`, `\x1b[2J`},
		"a\u202eb\u009bc":         {`"a\xe2\x80\xaeb\xc2\x9bc"`, `"a\xe2\x80\xaeb\xc2\x9bc"`, `a\xe2\x80\xaeb\xc2\x9bc`},
		"\xff\xc3":                {`"\xff\xc3"`, `"\xff\xc3"`, `\xff\xc3`},
		strings.Repeat("ab", 600): {strings.Repeat("ab", 63) + "…" + strings.Repeat("ab", 63), "", strings.Repeat("ab", 600)},
	} {
		require.Equal(t, want[0], printable.Name(text))
		if want[1] != "" {
			require.Equal(t, want[1], printable.Quote(text))
		}
		require.Equal(t, want[2], printable.Line(text))
	}
	hash, wrong := strings.Repeat("1f", 20), "WRONGTYPE Operation against a key holding the wrong kind of value"
	for _, raised := range []string{ // in a script, by 7 and later, by 6.2 and by 6.0
		wrong + " script: " + hash + ", on @user_script:40.", wrong + " script: on @user_script:47.",
		"ERR Error running script (call to f_" + hash + "): @user_script:14: -" + wrong,
		"ERR Error running script (call to f_" + hash + "): @user_script:15: @user_script: 15: " + wrong,
	} {
		require.Equal(t, "a: "+wrong+"; b", printable.Line("a: "+raised+"; b"))
	}
	require.Equal(t, "e"+strings.Repeat("\u0301", 8)+`\xcc\x81`, printable.Line("e"+strings.Repeat("\u0301", 9)))
	require.Equal(t, `"two\x20\x20spaces"`, printable.Key("two  spaces"))
	require.Equal(t, "DEL…é", strings.Trim(printable.Text("DEL"+strings.Repeat("é", 9), 10), `"`), "characters are not cut")
}

// TestHostile: whatever somebody has written, and a text that was made printable stays as it is.
func TestHostile(t *testing.T) {
	for _, text := range hostile.Texts {
		for _, shown := range []string{
			printable.Name(text), printable.Quote(text), printable.Line(text), printable.Key(text), printable.Text(text, printable.Long),
			printable.Error(fmt.Errorf("a %s: %w", text, errors.New(text))).Error(),
		} {
			hostile.Check(t, fmt.Sprintf("%.40q", text), shown)
			require.LessOrEqual(t, len(shown), printable.Long+2)
			require.True(t, len(shown) > printable.Long || strings.Trim(shown, " ") == printable.Line(shown), "%.40q", text)
		}
	}
	require.NoError(t, printable.Error(nil))
	require.ErrorIs(t, printable.Error(fmt.Errorf("x: %w", context.Canceled)), context.Canceled)
}

// TestRepeatedArguments: what a server repeats of a command that it does not know is shown nowhere, as each version words
// it, wherever it stands, whatever quotes are in it, and however often it is made printable.
func TestRepeatedArguments(t *testing.T) {
	for _, text := range []string{
		"ERR unknown command 'auth', with args beginning with: 'us'er' 'Zq9tSeKret' ",
		"ERR unknown command `AUTH`, with args beginning with: `us`er`, `Zq9t` `SeKret`, ",
		"ERR Unknown Command 'HELLO', with args beginning with: '3' 'auth' 'user' 'Zq9t, SeKret' 'SETNAME' 'x' ",
		"ERR unknown command 'auth' with arguments beginning with: Zq9tSeKret",
		"ERR unknown command 'auth', with args beginning with: '" + strings.Repeat("x", 5_000) + "' 'Zq9tSeKret' ",
		"ERR unknown command 'auth', with args beginning with: 'a\"b' 'Zq\\9tSeKret' \nZq9tSeKret",
		strings.Repeat("x", 4_050) + "ERR unknown command 'auth', with args beginning with: 'user' 'Zq9tSeKret' ",
	} {
		var logged, document bytes.Buffer
		log := slog.New(printable.Handler(slog.NewJSONHandler(&logged, nil)))
		err := fmt.Errorf("lock: %w", errors.New(text))
		log.With("with", text).Warn(text, "text", text, "error", err, "any", []error{err}, slog.Group("in", "error", err))
		require.NoError(t, printable.JSON(&document, map[string]any{"error": text, "n": 7}, ""))
		require.Contains(t, document.String(), `(its arguments are not shown)","n":7}`)
		for _, shown := range []string{
			printable.Line(text), printable.Text(text, printable.Long), printable.Name(text), printable.Quote(text),
			printable.Error(err).Error(), logged.String(), document.String(),
		} {
			require.NotContains(t, shown, "SeKret")
			require.Contains(t, shown, "arguments are not shown")
			require.NotContains(t, printable.Line(shown), "SeKret")
		}
	}
	const known = "ERR unknown command 'auth'"
	require.Equal(t, known+" (its arguments are not shown)", printable.Line(known+", with args beginning with: 'user' 'Zq9tSeKret' "))
	require.Equal(t, known, printable.Line(known+", with args beginning with: "), "there were none")
	require.Equal(t, "a: "+known+" (its arguments are not shown); leave it out",
		printable.Line(fmt.Errorf("a: %w; leave it out", printable.Error(errors.New(known+", with args beginning with: 'x' "))).Error()))
}

// TestHostileControl: as they are, all but those that are harmless to a terminal are found.
func TestHostileControl(t *testing.T) {
	for _, text := range hostile.Texts {
		require.Equal(t, printable.Text(text, 100_000) == text, len(hostile.Faults(text)) == 0, "%.40q", text)
	}
}

// TestJSON: all of a text can be read back, and nothing of it does anything where the document is shown.
func TestJSON(t *testing.T) {
	for _, text := range hostile.Texts {
		var b bytes.Buffer
		require.NoError(t, printable.JSON(&b, map[string]string{"name": text}, ""))
		if len(text) < hostile.Longest/8 {
			hostile.Check(t, "json", b.String())
		}
		var back map[string]string
		require.NoError(t, json.Unmarshal(b.Bytes(), &back))
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), strings.ReplaceAll(back["name"], "\ufffd\ufffd\ufffd", "\ufffd"))
	}
	var b bytes.Buffer
	require.NoError(t, printable.JSON(&b, []string{"<a>", "\U000e0041"}, "  "))
	require.Equal(t, "[\n  \"<a>\",\n  \"\\udb40\\udc41\"\n]\n", b.String())
	require.Error(t, printable.JSON(&b, func() {}, ""))
}

// TestLogs: messages and values of all sorts, those of a logger's own and those in groups; a stack stays as it is.
func TestLogs(t *testing.T) {
	for _, text := range hostile.Texts {
		var b bytes.Buffer
		log := slog.New(printable.Handler(slog.NewJSONHandler(&b, nil)))
		why := fmt.Errorf("why %s", text)
		log.With("with", text).WithGroup("g").Warn(text, "name", text, "error", why, "any", []string{text},
			slog.Group("in", "name", text), "n", 7, printable.Stack, "main\n\tgo")
		log.Debug("not wanted")
		hostile.Check(t, fmt.Sprintf("%.40q", text), b.String())
		require.Equal(t, 1, strings.Count(b.String(), "\n"))
		require.Contains(t, b.String(), `"n":7,"stack":"main\n\tgo"`)
	}
}
