package resp

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestRequestsAreReadInAnyPieces(t *testing.T) {
	stream := "*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n" + "PING now\r\n" + "*1\r\n$0\r\n\r\n" + "*0\r\n" +
		"*1\r\n$4\r\nQUIT\r\n"
	want := [][]string{{"GET", "a\r\nb"}, {"PING", "now"}, {""}, nil, {"QUIT"}}
	for name, r := range map[string]*bufio.Reader{
		"whole": bufio.NewReader(strings.NewReader(stream)),
		"bytes": bufio.NewReader(iotest.OneByteReader(strings.NewReader(stream))),
	} {
		var all []byte
		for _, w := range want {
			args, raw, err := ReadRequest(r)
			require.NoError(t, err, name)
			require.Equal(t, w, args, name)
			all = append(all, raw...)
		}
		require.Equal(t, stream, string(all), "forwarded as it came")
	}
}

func TestEachTypeOfReplyIsOneFrame(t *testing.T) {
	frames := []string{
		"+OK\r\n", "-ERR no\r\n", ":-1\r\n", "$-1\r\n", "$0\r\n\r\n", "$4\r\n\r\n\r\n\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12345678901234567890\r\n", "=5\r\ntxt:a\r\n",
		"!3\r\nERR\r\n", "%1\r\n+a\r\n%1\r\n+b\r\n:1\r\n", "~2\r\n:1\r\n:2\r\n",
		">3\r\n+message\r\n$1\r\nc\r\n$1\r\n0\r\n",
		"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n", ">0\r\n",
	}
	r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(strings.Join(frames, ""))))
	for _, want := range frames {
		raw, err := ReadReply(r, nil)
		require.NoError(t, err, want)
		require.Equal(t, want, string(raw))
	}
}

func FuzzReadersNeverPanic(f *testing.F) {
	for _, s := range []string{"*1\r\n$1\r\na\r\n", "*1\r\n\r\n", "$5\r\n", "\n", "%1\r\n", "*-1\r\n", "|0\r\n",
		"$-2\r\n", "*2\r\n:1\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.ContainsAny(in, "123456789") && len(in) > 1<<10 {
			return // nested lengths make it slow, not wrong
		}
		for _, one := range []func(*bufio.Reader) error{
			func(r *bufio.Reader) error { _, _, err := ReadRequest(r); return err },
			func(r *bufio.Reader) error { _, err := ReadReply(r, nil); return err },
		} {
			r := bufio.NewReader(bytes.NewReader(in))
			for one(r) == nil {
				continue
			}
		}
	})
}

func TestMain(m *testing.M) { leak.Main(m) }
