"""The networks of `ipexctl bench models`: ResNet-50 and an encoder like BERT-base, in plain torch.

There is no dropout, and batch normalization keeps its statistics, so that every engine computes
the same from the same weights.
"""

import torch  # type: ignore
from torch import nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # of ResNet-50: width, blocks, stride
CLASSES, WORDS, HIDDEN, HEADS = 1000, 30522, 768, 12
RESIDUAL = 0.1  # weight of a block's last normalization: with 1, rounding errors grow in training


def normalized(inputs, outputs, kernel, stride=1):
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs, momentum=0.0)


class Bottleneck(nn.Module):  # type: ignore
    def __init__(self, inputs, width, stride):
        nn.Module.__init__(self)
        outputs = 4 * width
        layers = normalized(inputs, width, 1) + (nn.ReLU(inplace=True),)
        layers += normalized(width, width, 3, stride) + (nn.ReLU(inplace=True),)
        layers += normalized(width, outputs, 1)
        nn.init.constant_(layers[-1].weight, RESIDUAL)
        self.block = nn.Sequential(*layers)
        same = stride == 1 and inputs == outputs
        shortcut = () if same else normalized(inputs, outputs, 1, stride)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, images):
        return nn.functional.relu(self.block(images) + self.shortcut(images))


def resnet50():
    layers = normalized(3, 64, 7, 2) + (nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for width, blocks, stride in STAGES:
        for block in range(blocks):
            layers += (Bottleneck(inputs, width, 1 if block else stride),)
            inputs = 4 * width
    layers += (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


class EncoderLayer(nn.Module):  # type: ignore
    """Of BERT: normalization after each half. nn.TransformerEncoderLayer cannot be quantized."""

    def __init__(self):
        nn.Module.__init__(self)
        self.query, self.key = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.value, self.out = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.first, self.second = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)

    def heads(self, tensor):
        return tensor.unflatten(-1, (HEADS, HIDDEN // HEADS)).transpose(1, 2)

    def forward(self, tokens):
        parts = [self.heads(of(tokens)) for of in (self.query, self.key, self.value)]
        mixed = nn.functional.scaled_dot_product_attention(*parts)
        tokens = self.first(tokens + self.out(mixed.transpose(1, 2).flatten(2)))
        return self.second(tokens + self.down(nn.functional.gelu(self.up(tokens))))


class Encoder(nn.Module):  # type: ignore
    """With the head for questions and answers: where in the sequence the answer starts and ends."""

    def __init__(self, layers, length):
        nn.Module.__init__(self)
        self.words, self.places = nn.Embedding(WORDS, HIDDEN), nn.Embedding(length, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.layers = nn.Sequential(*[EncoderLayer() for _ in range(layers)])
        self.head = nn.Linear(HIDDEN, 2)

    def forward(self, words):
        return self.head(self.layers(self.norm(self.words(words) + self.places.weight)))


def made(name, size):
    """The network, and a function that makes a batch: inputs and targets."""
    batch, length = size["batch"], size["length"]
    if name == "resnet50":

        def images():
            tensor = torch.randn(batch, 3, length, length)
            targets = torch.randint(CLASSES, (batch,))
            return tensor.contiguous(memory_format=torch.channels_last), targets

        return resnet50(), images

    def words():
        return torch.randint(WORDS, (batch, length)), torch.randint(length, (batch, 2))

    return Encoder(size["layers"], length), words


def optimizer_of(name, parameters):
    """The usual one, with a rate of 0: it computes everything, and the weights stay as they are."""
    if name == "resnet50":
        return torch.optim.SGD(parameters, lr=0.0, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=0.0)
