// Package resp reads requests and replies of Redis off a stream, one by one and with their bytes, for
// those who stand between a client and a server: proxies of tests, and the test double.
//
// It does not understand what it reads: a reply is a frame, and words are only taken apart where a
// fault has to find its command. Nothing of the library itself reads what go-redis reads.
package resp

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const maxBulk = 64 << 20 // more is a broken stream, not a test

// ReadRequest reads one request: its words, and its bytes as they were sent.
func ReadRequest(r *bufio.Reader) (args []string, raw []byte, err error) {
	raw, err = readLine(r, nil)
	if err != nil {
		return nil, nil, err
	}
	if raw[0] != '*' { // an inline command; quoting is not parsed
		return strings.Fields(string(raw)), raw, nil
	}
	n, err := number(raw)
	if err != nil {
		return nil, nil, err
	}
	for range n {
		head := len(raw)
		if raw, err = readLine(r, raw); err != nil {
			return nil, nil, err
		}
		if raw[head] != '$' {
			return nil, nil, fmt.Errorf("request: %q where a bulk string should be", raw[head:])
		}
		size, err := number(raw[head:])
		if err != nil {
			return nil, nil, err
		}
		body := len(raw)
		if raw, err = readBytes(r, raw, size+2); err != nil {
			return nil, nil, err
		}
		args = append(args, string(raw[body:len(raw)-2]))
	}
	return args, raw, nil
}

// ReadReply appends one reply of RESP2 or RESP3 to raw, with its attributes if it has any.
func ReadReply(r *bufio.Reader, raw []byte) ([]byte, error) {
	head := len(raw)
	raw, err := readLine(r, raw)
	if err != nil {
		return nil, err
	}
	switch kind := raw[head]; kind {
	case '+', '-', ':', '_', '#', ',', '(':
		return raw, nil
	case '$', '=', '!':
		n, err := number(raw[head:])
		if err != nil || n < 0 {
			return raw, err
		}
		return readBytes(r, raw, n+2)
	case '*', '~', '>', '%', '|':
		n, err := number(raw[head:])
		switch kind {
		case '%':
			n *= 2
		case '|':
			n = 2*n + 1 // the reply that it describes follows
		}
		for i := 0; i < n && err == nil; i++ {
			raw, err = ReadReply(r, raw)
		}
		return raw, err
	default:
		return nil, fmt.Errorf("reply: unknown type in %q", raw[head:])
	}
}

// number is the number in a line such as "$12\r\n". -1 (a null) is one.
func number(line []byte) (int, error) {
	n, err := strconv.Atoi(strings.TrimRight(string(line[1:]), "\r\n"))
	if err == nil && (n < -1 || n > maxBulk) {
		err = fmt.Errorf("length %d out of bounds", n)
	}
	return n, err
}

func readLine(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	return append(raw, line...), err
}

func readBytes(r *bufio.Reader, raw []byte, n int) ([]byte, error) {
	head := len(raw)
	raw = append(raw, make([]byte, max(n, 0))...)
	_, err := io.ReadFull(r, raw[head:])
	return raw, err
}
