package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
)

// shownAs are addresses, right and wrong ones, whose secrets all have "sesame" in them, and what is shown of each.
var shownAs = map[string]string{
	"redis://h:7000/3?read_timeout=1s&max_retries=-1":                   "redis://h:7000/3?read_timeout=1s&max_retries=-1",
	"redis://sesame1:sesame2@h:1/2":                                     "redis://***@h:1/2",
	"unix://sesame:sesame@/run/redis.sock?db=2":                         "unix://***@/run/redis.sock?db=2",
	"redis+sentinel://h1,h2:7/m?username=sesame1&password=sesame2&db=1": "redis+sentinel://h1,h2:7/m?username=***&password=***&db=1",
	"redis+sentinel://:sesame@h/m?password=se%40sesame":                 "redis+sentinel://***@h/m?password=***",
	"redis+sentinel://h/m?password=se@sesame":                           "redis+sentinel://***",
	"redis+sentinel://h/m?password=a&sesame=b":                          "redis+sentinel://h/m?password=***&***",
	"redis://h?pasword=sesame":                                          "redis://h?***",
	"redis://h?sesame":                                                  "redis://h?***",
	"redis://h?password=sesame":                                         "redis://h?password=***",
	"redis://h?db=0?password=sesame":                                    "redis://h?***",
	"redis://h?db=0;password=sesame":                                    "redis://h?***",
	"redis://h?read_timeout=1s,sesame":                                  "redis://h?***",
	"redis://:%zzsesame@h":                                              "redis://***@h",
	"redis+sentinel://h/m?password=%zzsesame":                           "redis+sentinel://h/m?password=***",
	"redis://:sesame/sesame@h":                                          "redis://***@h",
	"redis://:sesame?sesame@h":                                          "redis://***",
	"redis://:sesame":                                                   "redis://:***",
	"redis://user:sesame":                                               "redis://user:***",
	"redis://user:sesame:6379":                                          "redis://user:***",
	"redis://[::1]:sesame/0":                                            "redis://[::1]:***/0",
	"redis://h/0#sesame":                                                "redis://h/0#***",
	"h:sesame":                                                          "h:***",
	"sesame@h":                                                          "***@h",
	"sesame://h":                                                        "sesame://h", // no scheme is a secret
	"Open sesame://h":                                                   "***",
}

// TestAddressesShowNoSecret: in whatever way an address is printed, and whatever is wrong with it.
func TestAddressesShowNoSecret(t *testing.T) {
	for text, want := range shownAs {
		a := newAddress(text)
		require.Equal(t, want, a.String(), text)
		require.Equal(t, text, a.reveal())
		c := connection{addresses: []address{a}}
		document, err := json.Marshal(map[string]any{"a": a, "all": c.addresses})
		require.NoError(t, err)
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "address", a, "connection", c)
		printed := fmt.Sprint(a, &a, c, &c, struct{ inner address }{a}, string(document), &log, c.flags())
		for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x"} {
			printed += fmt.Sprintf(verb+verb, a, c)
		}
		require.NotContains(t, strings.ReplaceAll(printed, "sesame://h", ""), "sesame")
		if rdb, err := a.open(nil); err == nil {
			require.NoError(t, rdb.Close())
		} else {
			require.NotContains(t, strings.ReplaceAll(err.Error(), "sesame://h", ""), "sesame")
		}
	}
}

// TestErrorsShowNoSecret: no command repeats a secret of an address that is wrong, or stands where none belongs.
func TestErrorsShowNoSecret(t *testing.T) {
	for text := range shownAs {
		if strings.HasPrefix(text, "redis://h:7000") || strings.Contains(text, "esame://") {
			continue
		}
		for _, args := range [][]string{
			{"run", "--name", "n", "--redis", text, "--tls-ca", "/no/such.pem", "true"}, {"demo", "--redis", text, "--emulation"},
			{"doctor", text}, {"demo", text}, {text}, {"-redis=" + text}, {"run", "--wait", text}, {"unlock", text}, {"ui", "--listen", text},
			{"run", "--name", "n", "--kind", "redlock", "--redis", text, "--redis", text, "--redis", text, "true"},
		} {
			code, stdout, stderr := says(args...)
			require.NotZero(t, code)
			if strings.Contains(text, "://") || args[len(args)-1] == "true" { // else it may be anything
				require.NotContains(t, stdout+stderr, "sesame", args)
			}
		}
	}
}

// TestPasswordsBehindSentinel: the Sentinels have a password, and the data servers another one. Each is asked for where it
// belongs, and no command shows one of them.
func TestPasswordsBehindSentinel(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t)
	primary := group.Primary(t)
	if primary.Major() < 7 {
		t.Skip("Sentinels of Redis 6.0 have no users")
	}
	rdb := primary.Client(t)
	rdb.HSet(t.Context(), "held", "11111111-2222-4333-8444-555555555555:h1", 1)
	rdb.PExpire(t.Context(), "held", time.Hour)
	primary.Command(t, "ACL", "SETUSER", "default", "resetpass", ">sesame2")
	for _, s := range group.Sentinels {
		s.Command(t, "ACL", "SETUSER", "default", "resetpass", ">sesame1")
	}
	hosts := strings.Join(group.Addrs(), ",")
	for address, want := range map[string]struct {
		code int
		says string
	}{
		"redis+sentinel://" + hosts + "/holdfast?password=sesame2":                  {exitNoServer, "put user and password of the Sentinels into"},
		"redis+sentinel://:sesame1@" + hosts + "/holdfast":                          {exitHoldfast, "/mymaster?username=user&password=password"},
		"redis+sentinel://:sesame1@" + hosts + "/holdfast?password=sesame3":         {exitHoldfast, "/mymaster?username=user&password=password"},
		"redis+sentinel://:sesame1@" + hosts + "/holdfast?password=sesame2&db=0":    {0, "held"},
		"redis+sentinel://sesame:sesame1@" + hosts + "/other?password=sesame2&db=0": {exitNoServer, "of the Sentinels"},
	} {
		for _, command := range []string{"inspect held", "doctor", "doctor --json", "ls --redisson", "run --name n"} {
			args := append(strings.Fields(command), "--redis", address)
			if args[0] == "run" {
				args = append(args, "--", "true")
			}
			code, stdout, stderr := says(args...)
			require.NotContains(t, stdout+stderr, "sesame", args)
			if want.code != 0 || args[0] != "doctor" && args[0] != "run" {
				require.Equal(t, want.code, code, stderr)
				require.Contains(t, stdout+stderr, want.says)
			}
		}
	}
}
