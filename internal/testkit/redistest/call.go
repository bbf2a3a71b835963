package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// call sends one command on a connection of its own and returns the reply: string, int64, []any or
// nil.
//
// It is not a go-redis client because such a client says HELLO and more on each connection, which
// would stand in the command counts that tests look at.
func call(addr string, args ...string) (any, error) { return callWithin(time.Second, addr, args...) }

// callWithin is call with a limit of its own.
func callWithin(limit time.Duration, addr string, args ...string) (any, error) {
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(conn))
}

// readReply reads one RESP2 reply.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty line in reply")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err
		}
		if kind == '$' {
			b := make([]byte, n+2)
			_, err := io.ReadFull(r, b)
			return string(b[:n]), err
		}
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return nil, fmt.Errorf("unknown reply %q", line)
	}
}

// text is the reply of a command that answers with a string.
func text(reply any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("reply is %T, not a string", reply)
	}
	return s, nil
}
