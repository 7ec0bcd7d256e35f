package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of StreamAccessLogsMessage and what is in it.
const (
	logIdentifier = 1
	logHTTP       = 2
	logTCP        = 3
	identityNode  = 1
	identityName  = 2
	nodeID        = 1
	logEntries    = 1
	entryCommon   = 1
)

// Fields of AccessLogCommon.
const (
	commonFirstRx  = 9
	commonUpstream = 13
	commonFlags    = 16
	commonMetadata = 17
	commonType     = 33
)

// Fields of Address and SocketAddress.
const (
	addressSocket   = 1
	addressPipe     = 2
	addressInternal = 3
	socketAddress   = 2
	socketPort      = 3
	socketNamedPort = 4
)

// LogMessage is a StreamAccessLogsMessage.
type LogMessage struct {
	// Identified: it is the first message of a stream, and says whose log this is.
	Identified bool
	Node, Name string

	http []byte
}

// ReadLog reads a StreamAccessLogsMessage. An error says that m is none.
func ReadLog(m []byte) (l LogMessage, err error) {
	var identity []byte
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return l, fmt.Errorf("StreamAccessLogsMessage: %w", err)
		}
		switch {
		case f.is(logIdentifier):
			identity, l.Identified = merge(identity, f.bytes), true
		case f.is(logHTTP):
			l.http = merge(l.http, f.bytes)
		case f.is(logTCP):
			l.http = nil
		}
	}
	if l.Identified {
		node, _, err := member(identity, identityNode)
		if err == nil {
			l.Node, err = text(node, nodeID)
		}
		if err == nil {
			l.Name, err = text(identity, identityName)
		}
		if err != nil {
			return l, fmt.Errorf("StreamAccessLogsMessage, identifier: %w", err)
		}
	}
	return l, nil
}

// Entries yields the entries of HTTP requests, each with an error if it cannot be read.
func (l *LogMessage) Entries(yield func(*LogEntry, error) bool) {
	var e LogEntry
	for m := l.http; len(m) > 0; {
		f, rest, err := next(m)
		if err != nil {
			yield(nil, fmt.Errorf("HTTPAccessLogEntries: %w", err))
			return
		}
		if m = rest; !f.is(logEntries) {
			continue
		}
		if err = ReadLogEntry(f.bytes, &e); err != nil {
			err = fmt.Errorf("HTTPAccessLogEntry: %w", err)
		}
		if !yield(&e, err) {
			return
		}
	}
}

// Flags are response flags: bit n is the boolean field n of envoy.data.accesslog.v3.ResponseFlags.
type Flags uint32

// The response flags that are read.
const (
	FailedLocalHealthcheck Flags = 1 << (iota + 1)
	NoHealthyUpstream
	UpstreamRequestTimeout
	LocalReset
	UpstreamRemoteReset
	UpstreamConnectionFailure
	UpstreamConnectionTermination
	UpstreamOverflow
	NoRouteFound
)

// More of them.
const (
	DownstreamConnectionTermination Flags = 1 << (iota + 15)
	UpstreamRetryLimitExceeded
	StreamIdleTimeout
	_
	DownstreamProtocolError
	UpstreamMaxStreamDurationReached
)

// More of them.
const (
	DurationTimeout Flags = 1 << (iota + 23)
	UpstreamProtocolError
	NoClusterFound
	OverloadManager
	DNSResolutionFailure
	DownstreamRemoteReset
)

// Kinds of log entries: envoy.data.accesslog.v3.AccessLogType.
const (
	LogNotSet        = 0
	LogDownstreamEnd = 6
)

// LogEntry is what is read of an HTTPAccessLogEntry. Its slices are parts of the message.
type LogEntry struct {
	Type  int32
	Flags Flags
	// Answered: a first byte of the upstream came.
	Answered bool
	// Address and Port are those of the upstream; empty where it has no socket address.
	Address  string
	Port     uint32
	Metadata Metadata
}

// ReadLogEntry reads an HTTPAccessLogEntry into e, whatever e was.
func ReadLogEntry(m []byte, e *LogEntry) error {
	*e = LogEntry{}
	common, _, err := member(m, entryCommon)
	if err != nil {
		return err
	}
	var upstream []byte
	for m = common; len(m) > 0; {
		var f field
		if f, m, err = next(m); err != nil {
			return err
		}
		switch {
		case f.isVarint(commonType):
			e.Type = int32(f.value) //nolint:gosec // enums are 32 bits of a varint
		case f.is(commonFirstRx):
			e.Answered = true
		case f.is(commonFlags):
			err = e.readFlags(f.bytes)
		case f.is(commonUpstream):
			upstream = merge(upstream, f.bytes)
		case f.is(commonMetadata):
			e.Metadata = merge(e.Metadata, f.bytes)
		}
		if err != nil {
			return err
		}
	}
	return e.readAddress(upstream)
}

func (e *LogEntry) readFlags(m []byte) (err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return err
		}
		if f.typ != protowire.VarintType || f.num > 31 {
			continue
		}
		bit := Flags(1) << f.num
		e.Flags &^= bit
		if f.value != 0 {
			e.Flags |= bit
		}
	}
	return nil
}

func (e *LogEntry) readAddress(m []byte) (err error) {
	var socket []byte
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return err
		}
		switch {
		case f.is(addressSocket):
			socket = merge(socket, f.bytes)
		case f.is(addressPipe), f.is(addressInternal):
			socket = nil
		}
	}
	for m = socket; len(m) > 0; {
		var f field
		if f, m, err = next(m); err != nil {
			return err
		}
		switch {
		case f.is(socketAddress):
			e.Address = string(f.bytes)
		case f.isVarint(socketPort):
			e.Port = uint32(f.value) //nolint:gosec // a uint32 is 32 bits of a varint
		case f.is(socketNamedPort):
			e.Port = 0
		}
	}
	return nil
}

// Fields of envoy.data.ai.v3.TokenUsage and what is in it.
const (
	usageType       = "envoy.data.ai.v3.TokenUsage"
	usageProtocol   = 1
	usageInput      = 3
	usageOutput     = 4
	usageDetail     = 6
	usageExtraction = 9
	inputCached     = 1
	inputWritten    = 2
	wrapped         = 1 // of google.protobuf.UInt64Value
)

// Usage is a TokenUsage; Unknown stands for what it does not tell.
type Usage struct {
	Input, Cached, CacheWritten, Output uint64
	// Protocol is an envoy.type.ai.v3.LLMProtocol, Extraction a TokenUsage.ExtractionStatus.
	Protocol, Extraction int32
}

// The protocol and the status that are told apart.
const (
	AnthropicMessages = 3
	ExtractionPartial = 2
)

// Unknown is a number of tokens that nobody told.
const Unknown = ^uint64(0)

// Usage returns the token usage that typed metadata has under a name; has is false without it.
func (m Metadata) Usage(name string) (u Usage, has bool) {
	packed, has, err := entry(m, metadataTyped, name)
	if err != nil || !has {
		return u, false
	}
	url, err := text(packed, anyType)
	if err != nil || url[strings.LastIndexByte(url, '/')+1:] != usageType {
		return u, false
	}
	value, err := lastBytes(packed, anyValue)
	if err != nil {
		return u, false
	}
	u = Usage{Input: Unknown, Cached: Unknown, CacheWritten: Unknown, Output: Unknown}
	detail, _, err := member(value, usageDetail)
	for _, n := range []struct {
		to  *uint64
		in  []byte
		num protowire.Number
	}{{&u.Input, value, usageInput}, {&u.Output, value, usageOutput}, {&u.Cached, detail, inputCached}, {&u.CacheWritten, detail, inputWritten}} {
		if err == nil {
			*n.to, err = wrappedNumber(n.in, n.num)
		}
	}
	if err == nil {
		u.Protocol, err = number(value, usageProtocol)
	}
	if err == nil {
		u.Extraction, err = number(value, usageExtraction)
	}
	return u, err == nil
}

// number returns the enum that is field num of m, 0 without it.
func number(m []byte, num protowire.Number) (n int32, err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return 0, err
		}
		if f.isVarint(num) {
			n = int32(f.value) //nolint:gosec // enums are 32 bits of a varint
		}
	}
	return n, nil
}

// lastBytes returns the bytes that are field num of m, as its last occurrence says.
func lastBytes(m []byte, num protowire.Number) (value []byte, err error) {
	for len(m) > 0 {
		var f field
		if f, m, err = next(m); err != nil {
			return nil, err
		}
		if f.is(num) {
			value = f.bytes
		}
	}
	return value, nil
}

// wrappedNumber returns the UInt64Value that is field num of m, Unknown without it.
func wrappedNumber(m []byte, num protowire.Number) (uint64, error) {
	inner, has, err := member(m, num)
	if err != nil || !has {
		return Unknown, err
	}
	n := uint64(0)
	for len(inner) > 0 {
		var f field
		if f, inner, err = next(inner); err != nil {
			return Unknown, err
		}
		if f.isVarint(wrapped) {
			n = f.value
		}
	}
	return n, nil
}
