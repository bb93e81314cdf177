// gopacket's reassembly in place of Sluice: gopacket TRACE assemble [--warm], with the JSON of bench/peer.h.
//
// As there, the trace lies in memory, packets are processed in bursts of 32, and with --warm each burst is copied into a
// small ring before. The time is the CPU time of the whole process, since the garbage collector has threads of its own.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/reassembly"
)

const burst = 32

type packet struct {
	data []byte
	at   time.Time
}

var deliveries, deliveredBytes, flows uint64

// stream delivers both directions of a connection, from wherever they begin.
type stream struct{}

func (stream) Accept(*layers.TCP, gopacket.CaptureInfo, reassembly.TCPFlowDirection, reassembly.Sequence, *bool, reassembly.AssemblerContext) bool {
	return true
}

func (stream) ReassembledSG(sg reassembly.ScatterGather, _ reassembly.AssemblerContext) {
	length, _ := sg.Lengths()
	if length > 0 {
		deliveries++
		deliveredBytes += uint64(len(sg.Fetch(length)))
	}
}

func (stream) ReassemblyComplete(reassembly.AssemblerContext) bool { return true }

func (stream) New(_, _ gopacket.Flow, _ *layers.TCP, _ reassembly.AssemblerContext) reassembly.Stream {
	flows++
	return stream{}
}

type context gopacket.CaptureInfo

func (c *context) GetCaptureInfo() gopacket.CaptureInfo { return gopacket.CaptureInfo(*c) }

// load reads a pcap file in little-endian byte order.
func load(path string) ([]packet, uint64, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	if len(file) < 24 {
		return nil, 0, errors.New(path + ": too short")
	}
	unit := uint32(1000)
	switch binary.LittleEndian.Uint32(file) {
	case 0xa1b2c3d4:
	case 0xa1b23c4d:
		unit = 1
	default:
		return nil, 0, errors.New(path + ": not a pcap file in little-endian byte order")
	}
	var packets []packet
	var bytes uint64
	for at := 24; at+16 <= len(file); {
		seconds, fraction := binary.LittleEndian.Uint32(file[at:]), binary.LittleEndian.Uint32(file[at+4:])
		captured, length := int(binary.LittleEndian.Uint32(file[at+8:])), binary.LittleEndian.Uint32(file[at+12:])
		at += 16
		if captured > len(file)-at {
			return nil, 0, errors.New(path + ": cut short")
		}
		packets = append(packets, packet{file[at : at+captured : at+captured], time.Unix(int64(seconds), int64(fraction*unit))})
		bytes += uint64(length)
		at += captured
	}
	return packets, bytes, nil
}

func cpu() uint64 {
	const processCPUTime = 2 // CLOCK_PROCESS_CPUTIME_ID
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, processCPUTime, uintptr(unsafe.Pointer(&t)), 0)
	return uint64(t.Nano())
}

func run(path string, warm bool) error {
	packets, bytes, err := load(path)
	if err != nil {
		return err
	}
	if len(packets) == 0 {
		return errors.New(path + ": has no packets")
	}
	var ethernet layers.Ethernet
	var ip layers.IPv4
	var tcp layers.TCP
	var payload gopacket.Payload
	decoded := make([]gopacket.LayerType, 0, 4)
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &ethernet, &ip, &tcp, &payload)
	parser.IgnoreUnsupported = true
	assembler := reassembly.NewAssembler(reassembly.NewStreamPool(stream{}))
	ring := make([]byte, 2*burst*65536)
	ringAt := 0
	var leftOut, spent uint64
	begin, wall := cpu(), time.Now()
	var wallSpent time.Duration
	for at := 0; at < len(packets); at += burst {
		now := packets[at:min(at+burst, len(packets))]
		var copied [burst]packet
		if warm {
			spent += cpu() - begin
			wallSpent += time.Since(wall)
			if ringAt > len(ring)/2 || ringAt > 1<<18 {
				ringAt = 0
			}
			for i, p := range now {
				copied[i] = packet{ring[ringAt : ringAt+copy(ring[ringAt:], p.data)], p.at}
				ringAt += (len(p.data) + 63) / 64 * 64
			}
			now = copied[:len(now)]
			begin, wall = cpu(), time.Now()
		}
		for _, p := range now {
			if parser.DecodeLayers(p.data, &decoded) != nil || len(decoded) < 3 || decoded[2] != layers.LayerTypeTCP {
				leftOut++
				continue
			}
			info := context{Timestamp: p.at, CaptureLength: len(p.data), Length: len(p.data)}
			assembler.AssembleWithContext(ip.NetworkFlow(), &tcp, &info)
		}
	}
	spent += cpu() - begin
	wallSpent += time.Since(wall)
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	count := float64(len(packets))
	each := float64(spent) / count
	fmt.Printf(`{"packets":%d,"bytes":%d,"flows":%d,"deliveries":%d,"delivered_bytes":%d,"left_out":%d,`,
		len(packets), bytes, flows, deliveries, deliveredBytes, leftOut)
	fmt.Printf(`"ns_per_packet_cpu":%.2f,"ns_per_packet_wall":%.2f,"mpps":%.4f,"gbps":%.4f,"peak_rss_bytes":%d}`+"\n",
		each, float64(wallSpent)/count, 1e3/each, float64(bytes)*8/count/each, usage.Maxrss*1024)
	return nil
}

func main() {
	warm := len(os.Args) > 3 && os.Args[3] == "--warm"
	if len(os.Args) < 3 || os.Args[2] != "assemble" {
		fmt.Fprintln(os.Stderr, "usage: gopacket TRACE assemble [--warm]")
		os.Exit(2)
	}
	if err := run(os.Args[1], warm); err != nil {
		fmt.Fprintln(os.Stderr, "gopacket:", err)
		os.Exit(1)
	}
}
